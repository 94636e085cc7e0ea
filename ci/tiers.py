#!/usr/bin/env python3
"""The table of tiers in docs/MISUSE.md agrees with the rates in that file and with the proved bounds in bounds/. The
lowest tier adds at most 8 instructions to none except on Armv6-M, and so does the default one on x86-64. With --update,
writes the table.
Needs: nothing but python3. Takes: a second."""

import json
import pathlib
import sys

DOCUMENT = pathlib.Path("docs/MISUSE.md")
# Tier, heap in C, allocator on the command line; none where the instructions have no bound.
TIERS = [("none: `Unchecked`", "tlsf_unchecked", "tlsf-unchecked"),
         ("double frees and foreign pointers: `OwnTag`", "tlsf_own_tag", "tlsf-own-tag"),
         ("and the tags next to the block: `Basic`, the default", "tlsf", "tlsf"),
         ("all tags: `Full`", "tlsf_full_validation", "tlsf-full-validation"),
         ("fences and quarantine: `Guarded`", "guarded_tlsf", None)]
MOST_ADDED = 8
# Tier by its place above, and processors.
LIMITED = {1: ["x86-64", "Armv7E-M", "RV32IMC"], 2: ["x86-64"]}
OPERATIONS = ["allocate", "allocate aligned", "deallocate"]
PROCESSORS = ["Armv6-M", "Armv7E-M", "RV32IMC"]


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
bounds |= {name: targets[name]["bounds"] for name in PROCESSORS}
none = TIERS[0][2]


def added(allocator):
    """Instructions by processor that a tier adds to none."""
    return {name: [of[allocator][operation] - of[none][operation] for operation in OPERATIONS]
            for name, of in bounds.items()}


titles = ["tier", *(f"caught: {what}" for what in heading[1:]), *(f"added: {name}" for name in bounds)]
lines = [titles, ["---"] * len(titles)]
for tier, heap, allocator in TIERS:
    prices = ["grows with the block"] * len(bounds)
    if allocator:
        prices = [" / ".join(map(str, price)) for price in added(allocator).values()]
    lines.append([tier, *map(reported, rates[f"rt_{heap}"]), *prices])
before, table, after = between(text, "tiers")
now = "".join(f"| {' | '.join(line)} |\n" for line in lines)
for at, processors in LIMITED.items():
    dearest = {name: max(added(TIERS[at][2])[name]) for name in processors}
    print(f"{TIERS[at][2]} adds at most {dearest} instructions")
    if max(dearest.values()) > MOST_ADDED:
        sys.exit(f"more than {MOST_ADDED}")
if sys.argv[1:] == ["--update"]:
    DOCUMENT.write_text(before + now + after)
elif table != now:
    sys.exit(f"the tiers in {DOCUMENT} differ from its rates or from bounds/: run ci/tiers.py --update")
