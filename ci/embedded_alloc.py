"""What a heap of rtalloc-embedded takes on a Cortex-M4, beside embedded-alloc's; ci/embedded_alloc.sh calls it."""

import json
import pathlib
import re
import subprocess
import sys

rtalloc, program, figures, exhaustion, compiler, measured, mode = sys.argv[1:]
DOCUMENT = pathlib.Path("crates/rtalloc-embedded/src/lib.rs")
NAMES = {"ours": "this crate's `TlsfHeap`",
         "tlsf": "embedded-alloc's `TlsfHeap`",
         "llff": "embedded-alloc's `LlffHeap`"}
# What is promised of a region of 4 KiB and of one of 64 KiB.
MOST_BYTES = (200, 1200)


def decoded(frame):
    """The data of a frame in rzCOBS, the encoding of defmt, which is read from its end."""
    rest, data = list(frame), []
    while rest:
        code = rest.pop()
        if code < 0x80:
            data += [0 if code >> bit & 1 else rest.pop() for bit in reversed(range(7)) if rest or code >> bit & 1]
        else:
            data += ([0] if code < 0xFF else []) + [rest.pop() for _ in range((code & 0x7F) + 7)]
    return bytes(reversed(data))


def bounds(name):
    """The most instructions of an allocation and of a free; `None` where a loop has no bound."""
    command = [rtalloc, "bound", "--binary", program, "--symbol", f"{name}_allocate", "--symbol", f"{name}_deallocate"]
    answer = subprocess.run([*command, "--json", "-"], capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{name}: {answer.stderr}")
    for operation in json.loads(answer.stdout)["subjects"][0]["operations"]:
        if "bounded" in operation["answer"]:
            yield operation["answer"]["bounded"]["most"]
        elif operation["answer"]["declined"]["brief"] == "loop":
            yield None
        else:
            sys.exit(f"{name}: {operation['answer']['declined']['why']}")


# The one example that ends well by a panic; it must be that of its request.
log = pathlib.Path(exhaustion).read_bytes()
if not any(b"memory allocation of 64 bytes failed" in decoded(frame) for frame in log.split(b"\0")):
    sys.exit(f"exhaustion did not end by a refused request: {log}")

rows = {}
for line in pathlib.Path(figures).read_text().splitlines():
    name, *numbers = line.split()
    small, large, *observed = map(int, numbers)
    found = list(bounds(name))
    for most, bound in zip(observed[1::2], found):
        if bound is not None and most > bound:
            sys.exit(f"{name}: {most} instructions were executed, but the bound is {bound}")
    cells = [f"{mean}, {most}, {'none' if bound is None else bound}"
             for mean, most, bound in zip(observed[::2], observed[1::2], found)]
    rows[name] = f"| {NAMES[name]} | {small:,} B | {large:,} B | {cells[0]} | {cells[1]} |"
    if name == "ours":
        ours = [small, large, *found]
if any(taken > most for taken, most in zip(ours, MOST_BYTES)) or None in ours:
    sys.exit(f"this crate's heap takes more than {MOST_BYTES} bytes, or has no bound: {ours}")

BEGIN, END = "//! <!-- ci/embedded_alloc.sh -->\n", "//! <!-- end -->\n"
text = DOCUMENT.read_text()
before, rest = text.split(BEGIN)
table, after = rest.split(END)
head = ["| | of 4 KiB | of 64 KiB | allocate: mean, most, bound | free: mean, most, bound |", "|---|---|---|---|---|"]
new = "".join(f"//! {line}\n" for line in [*head, *rows.values()]) + f"//!\n//! {compiler}.\n//! {measured}\n"
print(new.replace("//! ", "").replace("//!", ""))
if mode == "--update":
    DOCUMENT.write_text(before + BEGIN + new + END + after)
    print(f"{DOCUMENT} written")
    sys.exit()
row = re.search(r"this crate's.*?\| ([\d,]+) B \| ([\d,]+) B \| \d+, \d+, (\d+) \| \d+, \d+, (\d+)", table)
documented = [int(number.replace(",", "")) for number in row.groups()]
if compiler in table and any(now > then for now, then in zip(ours, documented)):
    sys.exit(f"more than {DOCUMENT} has ({documented}): {ours}; "
             "run ci/embedded_alloc.sh --update, in a commit that says why")
