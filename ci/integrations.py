"""What the programs of the check print, and the table of the heaps on a Cortex-M4, those of rtalloc-embedded and
embedded-alloc included, which ci/embedded_alloc.sh measures; ci/integrations.sh calls it."""

import json
import pathlib
import re
import subprocess
import sys

rtalloc, work, compilers, measured, mode = sys.argv[1:]
DOCUMENT = pathlib.Path("docs/book/src/integrations.md")
OUTPUT, BEGIN, END = "<!-- ci/integrations.sh: output -->\n", "<!-- ci/integrations.sh -->\n", "<!-- end -->\n"
EMBEDDED = pathlib.Path("crates/rtalloc-embedded/src/lib.rs")
NAMES_IN_EMBEDDED = {"this crate's `TlsfHeap`": "embedded-alloc: rtalloc, up to 64 KiB",
                     "embedded-alloc's `TlsfHeap`": "embedded-alloc: its own TLSF",
                     "embedded-alloc's `LlffHeap`": "embedded-alloc: its linked list"}
NAMES = {
    "heap_4": "FreeRTOS: heap_4",
    "heap_rtalloc": "FreeRTOS: rtalloc, below 64 KiB",
    "heap_rtalloc_65536": "FreeRTOS: rtalloc",
    "lvgl_own": "LVGL: its own TLSF",
    "lvgl_rtalloc": "LVGL: rtalloc",
}
for name, title in (("newlib", "newlib"), ("newlib_nano", "newlib-nano"), ("picolibc", "picolibc")):
    NAMES |= {f"{name}_own": f"{title}: its own", f"{name}_rtalloc_small": f"{title}: rtalloc, below 64 KiB",
              f"{name}_rtalloc": f"{title}: rtalloc"}


def bounds(name):
    """The most instructions of an allocation and of a free in a heap that was made; `None` if a loop has no bound."""
    is_ours, system = "rtalloc" in name, name.split("_")[0]
    # The functions, and the one that makes the heap at the first request.
    malloc, free, made = {
        "heap": ("pvPortMalloc", "vPortFree", ["vPortInitialiseBlocks"]),
        "lvgl": ("lv_malloc", "lv_free", []),
    }.get(system, ("malloc", "free", ["make_heap"]))
    symbols = malloc, free
    assumed = [*made, "rtalloc::hook::report"] if is_ours else []
    command = [rtalloc, "bound", "--binary", f"{work}/{name}", "--json", "-"]
    command += [word for symbol in symbols for word in ("--symbol", symbol)]
    command += [word for symbol in assumed for word in ("--never-returns", symbol)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{name}: {answer.stderr}")
    operations = {operation["operation"]: operation["answer"]
                  for operation in json.loads(answer.stdout)["subjects"][0]["operations"]}
    for answer in operations.values():
        if "declined" in answer and (is_ours or answer["declined"]["brief"] != "loop"):
            sys.exit(f"{name}: {answer['declined']['why']}")
    return [operations[symbol].get("bounded", {}).get("most") for symbol in symbols]


def text_and_data(program):
    """Bytes of code and constants, and of variables."""
    command = ["arm-none-eabi-size", f"{work}/{program}"]
    size = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, size.splitlines()[1].split()[:3])
    return text, data + bss


def embedded():
    """The rows of the heaps in Rust and when they were measured, both from the crate's documentation."""
    text = EMBEDDED.read_text()
    cells = {row[0]: row for line in text.splitlines() if (row := line.removeprefix("//! | ").split(" | "))}
    rows = []
    for name, title in NAMES_IN_EMBEDDED.items():
        _, _, not_free, malloc, free = cells[name]
        rows.append(f"| {title} | {not_free.removesuffix(' B')} in all | - | {malloc} | {free.rstrip(' |')} | - | - |")
    return rows, "embedded-alloc: m" + re.search("^//! M(easured .*)", text, re.MULTILINE)[1]


def rewritten(text, begin, new):
    """The text with another block after `begin`."""
    before, rest = text.split(begin)
    return before + begin + new + END + rest.split(END, 1)[1]


def promised(row):
    """The bytes that are not free, and the bounds."""
    _, _, not_free, _, malloc, free, *_ = row.replace(",", "").split("|")
    return [int(not_free.split()[0]), int(malloc.split()[-1]), int(free.split()[-1])]


lines = ["| heap | bytes that are not free, of variables | blocks of 100 B | malloc: mean, most, bound "
         "| free: mean, most, bound | fragmented: malloc, free | code |", "|---|---|---|---|---|---|---|"]
failed = []
for line in sys.stdin:
    name, *numbers = line.split()
    mean, most, mean_of_free, most_of_free, refused, last, control, blocks, text, data = map(int, numbers)
    library = re.sub("_(own|rtalloc.*)$", "", name)
    text_of_stub, data_of_stub = text_and_data("freertos_stub" if name.startswith("heap") else f"{library}_stub")
    found = bounds(name)
    for observed, bound in zip((max(most, refused), max(most_of_free, last)), found):
        if bound is not None and observed > bound:
            failed.append(f"{name}: {observed} instructions were executed, but the bound is {bound}")
    shown = ["none" if bound is None else f"{bound:,}" for bound in found]
    # The heap's memory is a variable in some programs.
    is_long = name.endswith("65536") or name.startswith("lvgl")
    is_variable = is_long or name.startswith("heap") or name.endswith("rtalloc_small")
    variables = data - data_of_stub - (65535 + is_long if is_variable else 0)
    # The bookkeeping of a C library's malloc is in variables and blocks; mallinfo knows the memory from sbrk alone.
    not_free = "" if name.endswith("_own") and library != "lvgl" else f"{control:,} + "
    lines.append(f"| {NAMES[name]} | {not_free}{variables:,} | {blocks} | {mean:,}, {most:,}, {shown[0]} "
                 f"| {mean_of_free:,}, {most_of_free:,}, {shown[1]} | {refused:,}, {last:,} "
                 f"| {text - text_of_stub:,} |")
if failed:
    sys.exit("\n".join(failed))

rust, measured_of_rust = embedded()
new = "".join(f"{line}\n" for line in [*lines, *rust, "", compilers, measured, measured_of_rust])
print(new)
output, text = pathlib.Path(work, "output").read_text(), DOCUMENT.read_text()
if mode == "--update":
    text = rewritten(text, OUTPUT, f"```text,drawing\n{output}```\n\n{measured}\n")
    DOCUMENT.write_text(rewritten(text, BEGIN, new))
    print(f"{DOCUMENT} written")
    sys.exit()
table = text.split(BEGIN)[1].split(END)[0]
if missing := [row for row in rust if row not in table]:
    sys.exit(f"{EMBEDDED} has other figures than {DOCUMENT}: {missing}; run ci/integrations.sh --update")
if missing := [line for line in output.splitlines() if f"\n{line.split(':')[0]}: " not in text]:
    sys.exit(f"{DOCUMENT} does not have what these print: {missing}; run ci/integrations.sh --update")
is_comparable = compilers in table
if not is_comparable:
    print(f"{DOCUMENT} has the figures of other compilers: not compared")
documented = {row.split("|")[1]: row for row in table.splitlines() if "rtalloc" in row and row.startswith("|")}
for row in lines:
    if "rtalloc" in row and is_comparable:
        then = documented.get(row.split("|")[1])
        if then is None or any(now > before for now, before in zip(promised(row), promised(then))):
            sys.exit(f"more than in {DOCUMENT}:\n{then}\n{row}\n"
                     "run ci/integrations.sh --update, in a commit that says why")
