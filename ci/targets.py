"""Compares bounds of code for other processors with bounds/targets.json; ci/targets.sh calls it."""

import json
import pathlib
import subprocess
import sys

from allocators import OPERATIONS, names, settle

linker, rtalloc, work, compiler, measured, mode = sys.argv[1:]
# Name, Rust target, optimisation level, features.
BUILT = [line.split(" ") for line in pathlib.Path(work, "list").read_text().splitlines()]
# Cores whose cycles are known from their manuals, and the processor whose code they execute. ci/cycles.sh has those
# that are simulated.
CORES = {"cortex-m0": "Armv6-M", "cortex-m0+": "Armv6-M", "cortex-m3": "Armv7-M", "cortex-m4": "Armv7E-M"}


def bounds(name, unit=()):
    """The bounds of the operations without loops, by allocator; in instructions, or with an option in cycles."""
    library, program = f"{work}/{name}.a", f"{work}/{name}.elf"
    symbols = {f"{code}_{end}": (command, operation)
               for code, command in names().items() for end, operation in OPERATIONS.items()}
    roots = [f"--undefined={symbol}" for symbol in symbols]
    subprocess.run([linker, "-flavor", "gnu", "--gc-sections", "-e", "tlsf_allocate", "-o", program, *roots, library],
                   check=True)
    asked = [word for symbol in symbols for word in ("--symbol", symbol)]
    answer = subprocess.run([rtalloc, "bound", "--binary", program, *asked, "--never-returns", "rtalloc::hook::report",
                             *unit, "--json", "-"], capture_output=True, text=True)
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


RISCV = 'register long n __asm__("a7") = 93, s __asm__("a0") = 0; __asm__ volatile("ecall" :: "r"(n), "r"(s));'
ARM = '__asm__ volatile("movs r0, #0\\n movs r7, #1\\n svc #0" ::: "r0");'
A64 = '__asm__ volatile("mov x0, #0\\n mov x8, #93\\n svc #0" ::: "x0", "x8");'
# Options of Clang, emulator, end of the program. QEMU's user emulation has no core of the M profile; one of the A
# profile executes the same code.
EMULATED = {
    "thumbv6m-none-eabi": (["-mcpu=cortex-m0"], ["qemu-arm", "-cpu", "max"], ARM),
    "thumbv7m-none-eabi": (["-mcpu=cortex-m3"], ["qemu-arm", "-cpu", "max"], ARM),
    "thumbv7em-none-eabihf": (["-mcpu=cortex-m4"], ["qemu-arm", "-cpu", "max"], ARM),
    "riscv32imc-unknown-none-elf":
        (["--target=riscv32-unknown-elf", "-march=rv32imc", "-mabi=ilp32"], ["qemu-riscv32"], RISCV),
    "aarch64-unknown-none": (["--target=aarch64-none-elf"], ["qemu-aarch64"], A64),
}


def observed(name, target, found):
    """The most instructions of each operation that has a bound, executed under QEMU, which logs every instruction."""
    options, emulator, end = EMULATED[target]
    both = {code: command for code, command in names().items()
            if {"allocate", "deallocate"} <= found.get(command, {}).keys()}
    runs, program, log = " ".join(f"RUN({code})" for code in both), f"{work}/{name}.run", f"{work}/{name}.log"
    subprocess.run(["clang", f"--target={target}", *options, "-ffreestanding", "-fno-builtin", "-w", "-O1",
                    f"-DRUNS={runs}", f"-DEXIT={end}", "-c", "ci/targets.c", "-o", f"{program}.o"], check=True)
    # Nothing in the library panics (ci/no_std.sh).
    subprocess.run([linker, "-flavor", "gnu", "--gc-sections", "-e", "start", "--defsym=a_panic_edge_was_linked=0",
                    "-o", program, f"{program}.o", f"{work}/{name}.a"], check=True)
    subprocess.run([*emulator, "-singlestep", "-d", "exec,nochain", "-D", log, program], check=True)
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    symbols = {line.split()[2]: int(line.split()[0], 16) & ~1 for line in listed.splitlines()}
    # The compiler merges identical functions of several allocators.
    entries = {}
    for code, command in both.items():
        for operation in ("allocate", "deallocate"):
            entries.setdefault(symbols[f"{code}_{operation}"], []).append((command, operation))
    most, performed, before, executed, back = {}, None, 0, 0, 0
    with open(log) as lines:
        for line in lines:
            # Trace 0: 0x7f6e794000c0 [00000000/0001134c/00107600/00000201] start
            place = int(line.split("/", 2)[1], 16)
            # The instruction after the call, of two or four bytes.
            if performed and back < place <= back + 4:
                most.update({operation: max(most.get(operation, 0), executed) for operation in performed})
                performed = None
            if not performed and place in entries:
                performed, executed, back = entries[place], 0, before
            executed += 1
            before = place
    for (command, what), count in most.items():
        if count > found[command][what]:
            sys.exit(f"{name} {command} {what}: {count} instructions executed, bound {found[command][what]}")
    return most


def table(targets):
    """The table; bounds that an execution reached are bold."""
    commands = [command for command in names().values() if any(command in found for found in targets.values())]
    headings = [f"{name}, cycles" if name in CORES else name for name in targets]
    lines = [f"| allocator | operation | {' | '.join(headings)} |", f"|---|---|{'---|' * len(targets)}"]
    for command in commands:
        for operation in OPERATIONS.values():
            row = [cell(name, found, command, operation) for name, found in targets.items()]
            if any(cell != "-" for cell in row):
                lines.append(f"| `{command}` | {operation} | {' | '.join(row)} |")
    return "\n".join(lines)


def cell(name, found, command, operation):
    """A bound, or `-`."""
    bound = found.get(command, {}).get(operation)
    if bound is None:
        return "-"
    return f"**{bound}**" if seen.get(name, {}).get((command, operation)) == bound else str(bound)


now = {name: {"rust_target": target, "opt_level": level, "features": features, "bounds": bounds(name)}
       for name, target, level, features in BUILT}
now |= {core: {**now[name], "bounds": bounds(name, ["--core", core])} for core, name in CORES.items()}
# What a user's own build gives.
printed = subprocess.run([rtalloc, "bound", "tlsf", "--target", "thumbv7em-none-eabihf"], capture_output=True, text=True).stdout
row = next((line.split()[1:] for line in printed.splitlines() if line.startswith("tlsf ")), None)
if "has just built" not in printed or row != [str(most) for most in now["Armv7E-M"]["bounds"]["tlsf"].values()]:
    sys.exit(f"rtalloc bound --target prints other bounds than the committed ones:\n{printed}")
seen = {name: observed(name, one["rust_target"], one["bounds"]) for name, one in now.items()
        if name not in CORES}
text = f"""# Bounds on other processors

The most instructions that an operation executes, or the most cycles that it takes, by static bounds of the code for
each processor as compiled by {compiler} (METHODOLOGY.md, "Other processors"), with 32-bit tags
(`tlsf-small`: 16) and without statistics. *Armv7E-M-z* is compiled for the smallest code, `opt-level = "z"`, the
others with `opt-level = 3`. Calls that report misuse are not covered. Operations that need facts about loops are left
out, as is `reallocate`. The allocators are those of crates/rtalloc/src/allocators.rs. `rtalloc bound --target` prints a
column; columns without a unit count instructions.

The same code executes 6,000 random operations of each allocator under QEMU, which logs every instruction. No operation
executes more instructions than its bound; those that reach it are **bold**.

The cycles of Cortex-M cores are by their manuals, for memory without wait states (`rtalloc bound --core cortex-m0`
prints the conditions; a bound of your own firmware takes `--wait-states`). They are not validated here: nothing was
measured on such a core. Where a manual gives a range, as for refills of the pipeline of Cortex-M3 and Cortex-M4, the
bound takes the most everywhere.

{measured}

{table({name: one["bounds"] for name, one in now.items()})}
"""
reached = sum(now[name]["bounds"][command][what] == most for name in seen for (command, what), most in seen[name].items())
print(f"{sum(map(len, seen.values()))} observed maxima within their bounds, {reached} equal to them")
settle(mode, "targets", "targets", compiler, now, text)
