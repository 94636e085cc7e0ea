#!/usr/bin/env python3
"""Longest paths through the constant-time operations, read off a disassembly of the code in ci/no_std.

A first, small stand-in for a bound from the binary: the control-flow graph is that of `objdump -d`, a path is counted
from an entry's first instruction to its `ret`, both included, calls followed. A loop, an indirect jump, a string
instruction or a call to memcpy on any path is an error. What only reports misuse is left out.

Usage: longest_path.py ARCHIVE. Needs: objdump, x86-64 code.
"""
import re
import subprocess
import sys

# Entry: the most instructions it may have. Raise one deliberately.
BOUNDS = {
    "tlsf_allocate": 90, "tlsf_deallocate": 82,
    "exact_allocate": 90, "exact_deallocate": 82,
    "thorough_allocate": 90, "thorough_deallocate": 106,
    "half_allocate": 58, "half_deallocate": 66,
    "first_deallocate": 66, "best_deallocate": 66,
}
LEFT_OUT = re.compile(r"report|refuse")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def functions(archive):
    """Instructions by symbol. Functions that compile to the same code share a section, and a name does not tell which."""
    sections, section = {}, None
    for line in run("objdump", "-dr", "--no-show-raw-insn", archive).splitlines():
        if head := re.match(r"^Disassembly of section (\S+):$", line):
            section = sections.setdefault(head[1], [])
        elif section and (relocation := re.match(r"^\s+[0-9a-f]+: R_\S+\s+(\S+?)([-+]0x[0-9a-f]+)?$", line)):
            section[-1][2].append(relocation[1])
        elif section is not None and (instruction := re.match(r"^\s+([0-9a-f]+):\s+(.*\S)", line)):
            section.append((int(instruction[1], 16), instruction[2], []))
    found = {name.removeprefix(".text."): code for name, code in sections.items()}
    for line in run("objdump", "-t", archive).splitlines():
        if symbol := re.match(r"^0+ .{7} (\.text\.\S+)\s+[0-9a-f]+ (?:\.hidden )?(\S+)$", line):
            found.setdefault(symbol[2], sections.get(symbol[1], []))
    return found


def longest(name, found, known):
    if name in known:
        if known[name] is None:
            raise SystemExit(f"{name}: recursion")
        return known[name]
    known[name] = None
    code = found[name]
    place = {address: index for index, (address, _, _) in enumerate(code)}
    lengths, on_path = {}, set()

    def from_index(index):
        if index in lengths:
            return lengths[index]
        if index in on_path:
            raise SystemExit(f"{name}: a loop at {code[index][0]:#x}")
        on_path.add(index)
        address, text, relocations = code[index]
        operation = text.split()[0]
        target = re.match(r"\S+\s+([0-9a-f]+)\b", text)
        inside = int(target[1], 16) if target and not relocations else None
        # Relocations name a function by its section: .text.NAME
        callee = relocations[0].removeprefix(".text.") if relocations else None
        if operation == "ret":
            length = 1
        elif operation in ("call", "jmp") and inside is None:
            if callee is None or "*" in text:
                raise SystemExit(f"{name}: an indirect {operation} at {address:#x}")
            if LEFT_OUT.search(callee):
                length = float("-inf")
            elif callee not in found:
                raise SystemExit(f"{name}: a call of {callee} at {address:#x}")
            else:
                length = 1 + longest(callee, found, known) + (from_index(index + 1) if operation == "call" else 0)
        elif operation == "jmp":
            length = 1 + from_index(place[inside])
        elif operation.startswith("j"):
            taken = from_index(place[inside]) if inside in place and not relocations else float("-inf")
            if relocations and not LEFT_OUT.search(callee):
                taken = longest(callee, found, known)
            length = 1 + max(taken, from_index(index + 1))
        elif operation.startswith("rep"):
            raise SystemExit(f"{name}: {text} at {address:#x}")
        elif operation == "ud2":
            length = float("-inf")
        else:
            length = 1 + from_index(index + 1)
        on_path.discard(index)
        lengths[index] = length
        return length

    known[name] = from_index(0)
    return known[name]


def main():
    sys.setrecursionlimit(100_000)
    found = functions(sys.argv[1])
    worst, failed = {}, False
    print(f"{'entry':<22}{'longest path':>13}{'bound':>7}")
    for entry, bound in BOUNDS.items():
        length = longest(entry, found, worst)
        failed |= length > bound
        print(f"{entry:<22}{length:>13}{bound:>7}{'  TOO LONG' if length > bound else ''}")
    print("no loop, no indirect jump, no rep, no call out of the library on these paths")
    sys.exit(failed)


main()
