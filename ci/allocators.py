"""What ci/targets.py and ci/cycles.py share: allocators, operations, and the comparison with committed bounds."""

import json
import pathlib
import re
import sys

# Functions of ci/no_std end in these words.
OPERATIONS = {"allocate": "allocate", "aligned": "allocate aligned", "deallocate": "deallocate"}


def names():
    """The allocators of the library's table that the laboratory has: names in code, and on the command line."""
    table = pathlib.Path("crates/rtalloc/src/allocators.rs").read_text()
    entries = re.findall(r'^ {12}(\w+), "([\w-]+)": (.*?)^ {12}\}', table, re.M | re.S)
    return {code: command for code, command, entry in entries if "laboratory:" in entry}


def without_date(document):
    """The document without the lines that say when it was made."""
    return [line for line in document.splitlines() if not line.startswith("Measured ")]


def settle(mode, kind, group, compiler, now, text, bound=lambda one: one):
    """Ends ci/KIND.sh: with --update, writes bounds/KIND.json and docs/KIND.md; otherwise compares with what they hold.
    `now` has bounds by processor, allocator and operation, kept under the name `group`; `bound` takes the number out of
    what is kept for one."""
    committed_in, document = pathlib.Path(f"bounds/{kind}.json"), pathlib.Path(f"docs/{kind.upper()}.md")
    if mode == "--update":
        committed_in.write_text(json.dumps({"rustc": compiler, group: now}, indent=2) + "\n")
        document.write_text(text)
        sys.exit()
    committed = json.loads(committed_in.read_text())
    grown, count = [], 0
    for name, one in committed[group].items():
        for allocator, operations in one["bounds"].items():
            for operation, before in operations.items():
                count += 1
                found = now.get(name, {"bounds": {}})["bounds"].get(allocator, {}).get(operation)
                if found is None or bound(found) > bound(before):
                    grown.append(f"{name} {allocator} {operation}: {before} committed, {found} now")
    print("\n".join(grown) if grown else f"None of the {count} committed bounds grew.")
    if committed["rustc"] != compiler:
        print(f"The committed bounds are for code compiled by {committed['rustc']}.")
    elif committed[group] != now or without_date(document.read_text()) != without_date(text):
        grown.append(str(document))
        print(f"{committed_in} or {document} is not up to date: ci/{kind}.sh --update")
    sys.exit(bool(grown) or count == 0)
