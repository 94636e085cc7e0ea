#!/usr/bin/env python3
"""Called by ci/applications.sh: runs the programs on each allocator, compares what they print and, with --update,
writes their processor times into docs/SHARED-HEAPS.md."""

import pathlib
import resource
import signal
import statistics
import subprocess
import sys

DOCUMENT = pathlib.Path("docs/SHARED-HEAPS.md")
BEGIN, END = "<!-- table: applications -->\n", "<!-- end of table -->"
PROGRAMS = {"rayon, 2 threads": ["rayon", "2"], "rayon, 16 threads": ["rayon", "16"],
            "search, 8 threads": ["search", "crates"], "echo, 4 threads": ["echo"]}
ALLOCATORS = {"locked": "TLSF, `BackoffLock`", "pooled": "`PooledArenas`", "system": "C library",
              "mimalloc": "mimalloc"}
LIMIT_SECONDS = 120

folder, measured, mode = sys.argv[1:]
rounds = 5 if mode == "--update" else 1


def run(allocator, arguments):
    """The checksum that a program prints, and its processor time in seconds."""
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime
    before = used()
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
    done = subprocess.run([f"{folder}/{allocator}", *arguments], capture_output=True, text=True, preexec_fn=limit)
    if done.returncode == -signal.SIGXCPU:
        sys.exit(f"{allocator} {' '.join(arguments)} did not end within {LIMIT_SECONDS} s of processor time")
    if done.returncode != 0:
        how = f"by signal {-done.returncode}" if done.returncode < 0 else f"with {done.returncode}"
        sys.exit(f"{allocator} {' '.join(arguments)} ended {how}: {done.stderr.strip()}")
    return done.stdout.strip(), used() - before


lines = ["| program | " + " | ".join(ALLOCATORS.values()) + " | `PooledArenas` to TLSF |", "|---" * 6 + "|"]
for program, arguments in PROGRAMS.items():
    times = {allocator: [] for allocator in ALLOCATORS}
    sums = {}
    for _ in range(rounds):
        for allocator in ALLOCATORS:
            checksum, seconds = run(allocator, arguments)
            sums.setdefault(checksum, set()).add(allocator)
            times[allocator].append(seconds)
    if len(sums) != 1:
        sys.exit(f"{program} prints different checksums: {sums}")
    median = {allocator: statistics.median(of) for allocator, of in times.items()}
    print(f"{program:18} {checksum}  " + "  ".join(f"{name} {of:.2f} s" for name, of in median.items()), flush=True)
    seconds = " | ".join(f"{of:.2f} s" for of in median.values())
    lines.append(f"| {program} | {seconds} | {median['pooled'] / median['locked']:.2f} |")
if mode == "--update":
    if BEGIN not in DOCUMENT.read_text():
        sys.exit(f"{DOCUMENT} lacks the line {BEGIN.strip()}")
    before, rest = DOCUMENT.read_text().split(BEGIN)
    after = rest.split(END, 1)[1]
    DOCUMENT.write_text(before + BEGIN + "\n".join(lines) + f"\n\n{measured}\n" + END + after)
print(f"{len(PROGRAMS)} programs on {len(ALLOCATORS)} allocators: the same checksums")
