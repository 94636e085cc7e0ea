"""Instructions of global allocators on RV32IM; ci/zkvm.sh calls it."""

import json
import pathlib
import struct
import subprocess
import sys

rtalloc, program, work, compiler, measured, mode = sys.argv[1:]
DOCUMENT = pathlib.Path("crates/rtalloc/src/adapt/guest.rs")
NAMES = {"embedded_tlsf": "embedded-alloc's TLSF", "bump": "bump", "tlsf": "`Tlsf`", "unchecked": "`UncheckedTlsf`",
         "half_fit": "half-fit, unchecked", "guest": "`Guest`"}
# The goal: Guest's share of embedded-alloc's instructions.
MOST_SHARE = 0.6


def figures(trace):
    """By allocator: what it did in the ample region, and in the other one; `None` where it refused."""
    found = {}
    for line in pathlib.Path(work, f"{trace}.figures").read_text().splitlines():
        name, _, outcome, *numbers = line.split()
        keys = ["allocations", "allocating", "reallocations", "reallocating", "frees", "freeing", "most_allocate",
                "most_free", "highest", "value", "made"]
        found.setdefault(name, []).append(dict(zip(keys, map(int, numbers))) if outcome == "served" else None)
    if found.keys() != NAMES.keys() or any(len(regions) != 2 for regions in found.values()):
        sys.exit(f"{trace}: the guest printed {found}")
    return found


def means(one):
    return f"{one['allocating'] / one['allocations']:.0f} / {one['freeing'] / one['frees']:.0f}"


def bounds():
    """The bounds of the functions without loops."""
    symbols = [f"{name}_{end}" for name in NAMES for end in ("allocate", "deallocate")]
    asked = [word for symbol in symbols for word in ("--symbol", symbol)]
    answer = subprocess.run([rtalloc, "bound", "--binary", program, *asked, "--never-returns", "rtalloc::hook::report",
                             "--json", "-"], capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(answer.stderr)
    found = {}
    for operation in json.loads(answer.stdout)["subjects"][0]["operations"]:
        if "bounded" in operation["answer"]:
            found[operation["operation"]] = operation["answer"]["bounded"]["most"]
        elif operation["answer"]["declined"]["brief"] != "loop":
            sys.exit(f"{operation['operation']}: {operation['answer']['declined']['why']}")
    return found


bound, rows, made, compared = bounds(), [], {}, 0
# The counter is right: the bump allocator executes its only paths.
exact = {"bump_allocate", "bump_deallocate"}
if not exact <= bound.keys():
    sys.exit(f"no bound of the bump allocator: {bound}")
for trace in pathlib.Path(work, "list").read_text().split():
    found = figures(trace)
    most_live = struct.unpack_from("<III", pathlib.Path(work, f"{trace}.bin").read_bytes())[2]
    cells = []
    for name, regions in found.items():
        ample, tight = regions
        made[name] = ample["made"]
        for one in filter(None, regions):
            for end, most in (("allocate", one["most_allocate"]), ("deallocate", one["most_free"])):
                symbol = f"{name}_{end}"
                if symbol in bound:
                    compared += 1
                    if most > bound[symbol] or symbol in exact and most != bound[symbol]:
                        sys.exit(f"{trace}: {most} instructions of {symbol}, bound {bound[symbol]}")
        if name == "bump":
            cells.append(f"{means(ample)} ({ample['highest'] / most_live:.1f} M)")
        else:
            cells.append("refused" if tight is None else means(tight))
    ours, theirs = found["guest"][1], found["embedded_tlsf"][1] or found["embedded_tlsf"][0]
    if ours is None:
        sys.exit(f"{trace}: Guest refuses a request in 1.3 times the live memory")
    share = (ours["allocating"] + ours["freeing"]) / (theirs["allocating"] + theirs["freeing"])
    if share > MOST_SHARE:
        sys.exit(f"{trace}: Guest executes {share:.3f} times the instructions of embedded-alloc's TLSF")
    rows.append([f"`{trace}`", f"{most_live / 1000:,.0f} KB", *cells, f"{share:.2f}"])
rows.append(["made in 128 MiB", "", *(f"{made[name]:,}" for name in NAMES), ""])
head = ["trace", "M", *NAMES.values(), "of embedded-alloc's"]
lines = [head, ["---"] * len(head), *rows]
BEGIN, END = "//! <!-- ci/zkvm.sh -->\n", "//! <!-- end -->\n"
before, rest = DOCUMENT.read_text().split(BEGIN)
table, after = rest.split(END)
now = "".join(f"//! | {' | '.join(line)} |\n" for line in lines) + f"//!\n//! {compiler}.\n//! {measured}\n"
print(now.replace("//! ", "").replace("//!", ""))
print(f"{compared} observed maxima within their bounds")
if mode == "--update":
    DOCUMENT.write_text(before + BEGIN + now + END + after)
    sys.exit()


def shares(table):
    """Of embedded-alloc's instructions, by trace."""
    cells = [line.strip("/! |\n").split(" | ") for line in table.splitlines() if line.startswith("//! | `")]
    return {row[0]: float(row[-1]) for row in cells}


documented, found = shares(table), shares(now)
grown = [f"{trace}: {share}, documented {documented.get(trace)}" for trace, share in found.items()
         if share > documented.get(trace, 0)]
if compiler in table and grown or documented.keys() != found.keys():
    sys.exit(f"{grown or 'other traces'}: more than {DOCUMENT} has; run ci/zkvm.sh --update, in a commit that says why")
