"""Compares bounds of code for other processors with bounds/targets.json; ci/targets.sh calls it."""

import json
import pathlib
import re
import subprocess
import sys

linker, rtalloc, work, compiler, measured, mode = sys.argv[1:]
COMMITTED, DOCUMENT = pathlib.Path("bounds/targets.json"), pathlib.Path("docs/TARGETS.md")
OPERATIONS = {"allocate": "allocate", "aligned": "allocate aligned", "deallocate": "deallocate"}
# Name, Rust target, features.
BUILT = [line.split(" ") for line in pathlib.Path(work, "list").read_text().splitlines()]


def names():
    """The allocators of the library's table that the laboratory has: names in code, and on the command line."""
    table = pathlib.Path("crates/rtalloc/src/allocators.rs").read_text()
    entries = re.findall(r'^ {12}(\w+), "([\w-]+)": (.*?)^ {12}\}', table, re.M | re.S)
    return {code: command for code, command, entry in entries if "laboratory:" in entry}


def bounds(name):
    """The bounds of the operations without loops, by allocator."""
    library, program = f"{work}/{name}.a", f"{work}/{name}.elf"
    symbols = {f"{code}_{end}": (command, operation)
               for code, command in names().items() for end, operation in OPERATIONS.items()}
    roots = [f"--undefined={symbol}" for symbol in symbols]
    subprocess.run([linker, "-flavor", "gnu", "--gc-sections", "-e", "tlsf_allocate", "-o", program, *roots, library],
                   check=True)
    asked = [word for symbol in symbols for word in ("--symbol", symbol)]
    answer = subprocess.run([rtalloc, "bound", "--binary", program, *asked, "--never-returns", "rtalloc::hook::report",
                             "--json", "-"], capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{name}: {answer.stderr}")
    found = {}
    for operation in json.loads(answer.stdout)["subjects"][0]["operations"]:
        command, what = symbols[operation["operation"]]
        if "bounded" in operation["answer"]:
            found.setdefault(command, {})[what] = operation["answer"]["bounded"]["most"]
        elif operation["answer"]["declined"]["brief"] != "loop":
            sys.exit(f"{name} {command} {what}: {operation['answer']['declined']['why']}")
    return found


def table(targets):
    """The document."""
    commands = [command for command in names().values() if any(command in found for found in targets.values())]
    lines = [f"| allocator | operation | {' | '.join(targets)} |", f"|---|---|{'---|' * len(targets)}"]
    for command in commands:
        for operation in OPERATIONS.values():
            row = [str(found.get(command, {}).get(operation, "-")) for found in targets.values()]
            if any(cell != "-" for cell in row):
                lines.append(f"| `{command}` | {operation} | {' | '.join(row)} |")
    return "\n".join(lines)


def without_date(document):
    """The document without the line that says when it was made."""
    return [line for line in document.splitlines() if not line.startswith("Measured ")]


now = {name: {"rust_target": target, "features": features, "bounds": bounds(name)} for name, target, features in BUILT}
text = f"""# Bounds on other processors

The most instructions that an operation executes, by static bounds of the code for each processor as compiled by
{compiler} (METHODOLOGY.md, "Other processors"), with 32-bit tags and without statistics.
Calls that report misuse are not covered. Operations that need facts about loops are left out, as is `reallocate`;
`-` is such an operation. The allocators are those of crates/rtalloc/src/allocators.rs. `rtalloc bound --target`
prints a column.

{measured}

{table({name: one["bounds"] for name, one in now.items()})}
"""
if mode == "--update":
    COMMITTED.write_text(json.dumps({"rustc": compiler, "targets": now}, indent=2) + "\n")
    DOCUMENT.write_text(text)
    sys.exit()
committed = json.loads(COMMITTED.read_text())
grown, count = [], 0
for name, one in committed["targets"].items():
    for allocator, operations in one["bounds"].items():
        for operation, most in operations.items():
            count += 1
            found = now.get(name, {"bounds": {}})["bounds"].get(allocator, {}).get(operation)
            if found is None or found > most:
                grown.append(f"{name} {allocator} {operation}: {most} committed, {found} now")
print("\n".join(grown) if grown else f"None of the {count} committed bounds grew.")
if committed["rustc"] != compiler:
    print(f"The committed bounds are for code compiled by {committed['rustc']}.")
elif committed["targets"] != now or without_date(DOCUMENT.read_text()) != without_date(text):
    grown.append("docs/TARGETS.md")
    print("bounds/targets.json or docs/TARGETS.md is not up to date: ci/targets.sh --update")
sys.exit(bool(grown) or count == 0)
