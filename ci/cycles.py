"""Compares cycles by pathbound's models with simulations of the cores' RTL; ci/cycles.sh calls it."""

import json
import pathlib
import subprocess
import sys

from allocators import OPERATIONS, names, settle

out, work, compiler, measured, mode = sys.argv[1:]
PERFORMED = ("allocate", "deallocate")
# Random programs of each core.
SEEDS = range(101, 141)
# SERV takes some 60 cycles for an instruction.
FEW = {"serv": ("tlsf", "half-fit")}
# Another core that executes the same code in other cycles.
WRONG = {"picorv32": "ibex-small", "ibex-small": "picorv32", "ibex-small-zb": "ibex-maxperf-zb",
         "ibex-maxperf": "ibex-small", "ibex-maxperf-zb": "ibex-small-zb", "serv": "picorv32"}
CORES = [line.split(" ") for line in pathlib.Path(work, "list").read_text().splitlines()]


def run(*words):
    """The output of a command; ends with its error."""
    answer = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if answer.returncode:
        sys.exit(f"{' '.join(map(str, words))}:\n{answer.stdout[-2000:]}{answer.stderr[-2000:]}")
    return answer.stdout


def compared(core, program, functions=()):
    """Simulates a program; what the comparison with the model counted. A difference ends this script."""
    trace = f"{program}.trace"
    run(f"{out}/cycles/{core}/core", program, trace)
    counts = json.loads(run(f"{out}/release/examples/cycles", core, program, trace, *functions))
    # The comparison notices a wrong model.
    answer = subprocess.run([f"{out}/release/examples/cycles", WRONG[core], program, trace], capture_output=True, text=True)
    if "by the model" not in answer.stderr:
        sys.exit(f"{program} on {core}, compared with {WRONG[core]}: {answer.stdout}{answer.stderr}")
    pathlib.Path(trace).unlink()
    return counts


def allocators(core, march, archive):
    """Bounds and observed cycles of the operations without loops, by allocator, and the counts of the comparison."""
    targets = json.loads(pathlib.Path("bounds/targets.json").read_text())["targets"]
    bounded = targets["RV32IMC+Zb" if "zb" in march else "RV32IMC"]["bounds"]
    both = {code: command for code, command in names().items()
            if set(PERFORMED) <= bounded.get(command, {}).keys() and command in FEW.get(core, bounded)}
    program, runs = f"{work}/{core}.elf", " ".join(f"RUN({code})" for code in both)
    words = "start", "ci/targets.c", f"-DRUNS={runs}", "-DEXIT=", archive
    run("ci/cycles/link.sh", program, march.split("_")[0], *words)
    symbols = {f"{code}_{what}": (command, what) for code, command in both.items() for what in PERFORMED}
    asked = [word for symbol in symbols for word in ("--symbol", symbol)]
    answer = json.loads(run(f"{out}/release/rtalloc", "bound", "--binary", program, *asked, "--never-returns",
                            "rtalloc::hook::report", "--core", core, "--json", "-"))
    counts, found = compared(core, program, symbols), {}
    if counts["calls"] != 6000 * len(both):
        sys.exit(f"{core}: {counts['calls']} calls of {len(both)} allocators in the simulation")
    for operation in answer["subjects"][0]["operations"]:
        command, what = symbols[operation["operation"]]
        bound, calls = operation["answer"]["bounded"], counts["functions"].get(operation["operation"])
        one = {"shortest": bound["fewest"], "observed": calls and calls["most"], "bound": bound["most"]}
        if not calls or calls["least"] < one["shortest"] or calls["most"] > one["bound"]:
            sys.exit(f"{core} {command} {what}: {one}, but {calls} in the simulation")
        found.setdefault(command, {})[OPERATIONS[what]] = one
    return found, counts


def on_core(core, target, march, fuzz, features):
    """What is committed about a core, and the instructions of random programs that were compared."""
    found, counts = allocators(core, march, f"{work}/{core}.a")
    calls, random = counts["calls"], 0
    for seed in SEEDS:
        source, program = pathlib.Path(work, f"{core}.S"), f"{work}/{core}-{seed}.elf"
        source.write_text(run("python3", "ci/cycles/fuzz.py", seed, fuzz))
        run("ci/cycles/link.sh", program, march, "fuzz", source)
        random += compared(core, program)["instructions"]
    print(f"{core}: {counts['instructions']:,} instructions of {calls:,} calls, and {random:,} of {len(SEEDS)} random "
          "programs, take exactly the cycles of the model", flush=True)
    return {"rust_target": target, "features": features, "calls": calls, "instructions": counts["instructions"],
            "random_instructions": random, "bounds": found}


def table(cores):
    """The most cycles in the simulation and the bound, by allocator and operation."""
    lines = [f"| allocator | operation | {' | '.join(cores)} |", f"|---|---|{'---|' * len(cores)}"]
    for command in names().values():
        for what in map(OPERATIONS.get, PERFORMED):
            row = [core["bounds"].get(command, {}).get(what) for core in cores.values()]
            if any(row):
                cells = [f"{one['observed']:,} / {one['bound']:,}" if one else "-" for one in row]
                lines.append(f"| `{command}` | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compared_table(cores):
    """What was compared, and how close the bounds are."""
    lines = ["| core | calls | instructions | of random programs | lowest observed / bound, TLSF | lowest of all |",
             "|---|---|---|---|---|---|"]
    for name, core in cores.items():
        ratios = {command: min(one["observed"] / one["bound"] for one in bounds.values())
                  for command, bounds in core["bounds"].items()}
        lines.append(f"| {name} | {core['calls']:,} | {core['instructions']:,} | {core['random_instructions']:,} | "
                     f"{ratios['tlsf']:.3f} | {min(ratios.values()):.3f} |")
    return "\n".join(lines)


now = {line[0]: on_core(*line) for line in CORES}
text = f"""# Bounds in cycles

Cycles of an operation on cores with RV32 (METHODOLOGY.md, "Cycles", has what is counted, and the conditions): the most
of any call in a simulation of the core's RTL / the static bound. The code is that of
{compiler}, with 32-bit tags (`tlsf-small`: 16) and without statistics; calls that
report misuse are not covered. `-`: SERV is slow to simulate, so only two allocators are. Operations that need facts about loops, aligned
requests and `reallocate` are left out. `rtalloc bound --core` prints a column, the conditions and, with `--mhz`,
microseconds. A bound is that of the program that `ci/cycles.sh` links: alignment changes cycles, so bound your own
firmware with `--binary FILE --symbol NAME`.

{measured}

{table(now)}

In 6,000 random operations of each allocator and in {len(SEEDS)} random programs for each core, each stretch between two
instructions of plain arithmetic takes exactly the cycles of the model. Where a bound is not reached, no simulated call
took the longest path, or its caller's next instruction is aligned.

{measured}

{compared_table(now)}
"""
settle(mode, "cycles", "cores", compiler, now, text, lambda one: one["bound"])
