#!/usr/bin/env python3
"""The table of tiers in docs/MISUSE.md agrees with the rates in that file and with the proved bounds in bounds/. The
lowest tier adds at most 8 instructions to none, and 13 on Armv6-M and in the smallest code; the default one, no more
than it does today. With --update, writes the table.
Needs: nothing but python3. Takes: a second."""

import json
import pathlib
import re
import sys

DOCUMENT = pathlib.Path("docs/MISUSE.md")
# Tier, heap in C, allocator on the command line; none where the instructions have no bound.
TIERS = [("none: `Unchecked`", "tlsf_unchecked", "tlsf-unchecked"),
         ("address and own header: `OwnTag`", "tlsf_own_tag", "tlsf-own-tag"),
         ("the next header and the previous footer: `Basic`, the default", "tlsf", "tlsf"),
         ("all tags: `Full`", "tlsf_full_validation", "tlsf-full-validation"),
         ("fences and quarantine: `Guarded`", "guarded_tlsf", None)]
# The most instructions that a tier may add, by allocator and processor: the goal of the lowest tier, and what the
# default one adds today.
MOST = {
    "tlsf-own-tag": {"x86-64": 8, "Armv6-M": 13, "Armv7-M": 8, "Armv7E-M": 8, "Armv7E-M-z": 13, "RV32IMC": 8,
                     "RV32IMC+Zb": 8, "A64": 8},
    "tlsf": {"x86-64": 8, "Armv6-M": 22, "Armv7-M": 16, "Armv7E-M": 16, "Armv7E-M-z": 25, "RV32IMC": 15,
             "RV32IMC+Zb": 14, "A64": 15},
}
PROCESSORS = list(MOST["tlsf"])
OPERATIONS = ["allocate", "allocate aligned", "deallocate"]
# The bounds of the C library. The last of a heap's four operations resizes in place.
PROOFS = pathlib.Path("crates/rtalloc-capi/src/bound/x86_64.rs")


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
if other := [name for name, one in targets.items() if name not in PROCESSORS and not name.startswith("cortex-")]:
    sys.exit(f"no column and no limits for {other}")
none = TIERS[0][2]
proved = dict(re.findall(r'"(\w+)",\s+Proof \{\s+operations: \[.*\((\d+), \d+\)\]', PROOFS.read_text()))
resizing = {heap: int(proved[heap]) - int(proved[TIERS[0][1]]) for _, heap, allocator in TIERS if allocator}


def added(allocator):
    """Instructions by processor that a tier adds to none."""
    return {name: [of[allocator][operation] - of[none][operation] for operation in OPERATIONS]
            for name, of in bounds.items()}


titles = ["tier", *(f"caught: {what}" for what in heading[1:]), *(f"added: {name}" for name in PROCESSORS),
          "added in C: x86-64, resizing in place"]
lines = [titles, ["---"] * len(titles)]
for tier, heap, allocator in TIERS:
    prices = ["no bound"] * (len(PROCESSORS) + 1)
    if allocator:
        prices = [*(" / ".join(map(str, added(allocator)[name])) for name in PROCESSORS), str(resizing[heap])]
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
