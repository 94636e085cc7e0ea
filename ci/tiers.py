#!/usr/bin/env python3
"""The table of tiers in docs/MISUSE.md agrees with the rates in that file and with the proved bounds in bounds/. The
lowest tier adds at most 8 instructions to none at opt-level 3, on Armv6-M at most 13; the default one at most 8 on
x86-64. With --update, writes the table.
Needs: nothing but python3. Takes: a second."""

import json
import pathlib
import sys

DOCUMENT = pathlib.Path("docs/MISUSE.md")
# Tier, heap in C, allocator on the command line; none where the instructions have no bound.
TIERS = [("none: `Unchecked`", "tlsf_unchecked", "tlsf-unchecked"),
         ("address and own header: `OwnTag`", "tlsf_own_tag", "tlsf-own-tag"),
         ("the next header and the previous footer: `Basic`, the default", "tlsf", "tlsf"),
         ("all tags: `Full`", "tlsf_full_validation", "tlsf-full-validation"),
         ("fences and quarantine: `Guarded`", "guarded_tlsf", None)]
# The most instructions that a tier may add, by allocator and processor.
MOST = {
    "tlsf-own-tag": {"x86-64": 8, "Armv6-M": 13, "Armv7-M": 8, "Armv7E-M": 8, "RV32IMC": 8, "RV32IMC+Zb": 8, "A64": 8},
    "tlsf": {"x86-64": 8},
}
OPERATIONS = ["allocate", "allocate aligned", "deallocate"]
COLUMNS = ["x86-64", "Armv6-M", "Armv7E-M", "Armv7E-M-z", "RV32IMC"]


def between(text, name):
    """What is before a table, its lines, and what is after it."""
    before, rest = text.split(begin := f"<!-- table: {name} -->\n")
    table, after = rest.split("<!-- end of table -->", 1)
    return before + begin, table, "<!-- end of table -->" + after


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def reported(cell):
    """The per cent of the trials that were reported."""
    return cell.split(" / ")[0].strip("*")


text = DOCUMENT.read_text()
heading, _, *rows = map(cells, between(text, "rates")[1].splitlines())
rates = {heap.strip("`"): row[1:] for row in rows for heap in row[0].split()}
targets = json.loads(pathlib.Path("bounds/targets.json").read_text())["targets"]
bounds = {"x86-64": json.loads(pathlib.Path("bounds/x86_64.json").read_text())["bounds"]}
bounds |= {name: one["bounds"] for name, one in targets.items()}
if missing := [name for name in bounds for _, _, of in TIERS if of and of not in bounds[name]]:
    sys.exit(f"no bounds of all tiers for {missing}: write bounds/ first (CONTRIBUTING.md)")
none = TIERS[0][2]


def added(allocator):
    """Instructions by processor that a tier adds to none."""
    return {name: [of[allocator][operation] - of[none][operation] for operation in OPERATIONS]
            for name, of in bounds.items()}


titles = ["tier", *(f"caught: {what}" for what in heading[1:]), *(f"added: {name}" for name in COLUMNS)]
lines = [titles, ["---"] * len(titles)]
for tier, heap, allocator in TIERS:
    prices = ["grows with the block"] * len(COLUMNS)
    if allocator:
        prices = [" / ".join(map(str, added(allocator)[name])) for name in COLUMNS]
    lines.append([tier, *map(reported, rates[f"rt_{heap}"]), *prices])
before, table, after = between(text, "tiers")
now = "".join(f"| {' | '.join(line)} |\n" for line in lines)
for allocator, limits in MOST.items():
    dearest = {name: max(price) for name, price in added(allocator).items() if name in limits}
    print(f"{allocator} adds at most {dearest} instructions")
    if any(dearest[name] > most for name, most in limits.items()):
        sys.exit(f"more than {limits}")
if sys.argv[1:] == ["--update"]:
    DOCUMENT.write_text(before + now + after)
elif table != now:
    sys.exit(f"the tiers in {DOCUMENT} differ from its rates or from bounds/: run ci/tiers.py --update")
