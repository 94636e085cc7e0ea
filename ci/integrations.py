"""The table of the faces in integrations/ on a Cortex-M4; ci/integrations.sh calls it."""

import json
import subprocess
import sys

rtalloc, work = sys.argv[1:]
NAMES = {
    "heap_4": "FreeRTOS, heap_4",
    "heap_rtalloc": "FreeRTOS, `heap_rtalloc.c`",
    "heap_rtalloc_65536": "the same, 64 KiB and above",
    "newlib_own": "newlib, its own malloc",
    "newlib_nano_own": "newlib-nano, its own malloc",
    "picolibc_own": "picolibc, its own malloc",
    "rtalloc": "`malloc_rtalloc.c`",
    "rtalloc_small": "the same, below 64 KiB",
}


def bounds(name):
    """The most instructions of an allocation and of a free in a heap that was made; `None` where a loop has no bound."""
    is_kernel, is_ours = name.startswith("heap"), "rtalloc" in name
    symbols = ("pvPortMalloc", "vPortFree") if is_kernel else ("malloc", "free")
    # What makes the heap at the first request, and what reports misuse.
    assumed = ("vPortInitialiseBlocks" if is_kernel else "make_heap", "rtalloc::hook::report") if is_ours else ()
    command = [rtalloc, "bound", "--binary", f"{work}/{name}", "--json", "-"]
    command += [word for symbol in symbols for word in ("--symbol", symbol)]
    command += [word for symbol in assumed for word in ("--never-returns", symbol)]
    answer = subprocess.run(command, capture_output=True, text=True)
    if not answer.stdout:
        sys.exit(f"{name}: {answer.stderr}")
    operations = {operation["operation"]: operation["answer"]
                  for operation in json.loads(answer.stdout)["subjects"][0]["operations"]}
    found = [operations[symbol].get("bounded", {}).get("most") for symbol in symbols]
    if is_ours and None in found:
        sys.exit(f"{name} has no bound: {operations}")
    return found


def text_and_data(program):
    """Bytes of code and constants, and of variables."""
    size = subprocess.run(["arm-none-eabi-size", f"{work}/{program}"], capture_output=True, text=True, check=True).stdout
    text, data, bss = map(int, size.splitlines()[1].split()[:3])
    return text, data + bss


print("| heap | bytes of 64 KiB that are not free, variables | blocks of 100 B | malloc: mean, most, bound | free: mean, most, bound "
      "| fragmented: refused malloc, free | code |")
print("|---|---|---|---|---|---|---|")
failed = []
for line in sys.stdin:
    name, *numbers = line.split()
    mean, most, mean_of_free, most_of_free, refused, last, control, blocks, text, data = map(int, numbers)
    stub = "freertos_stub" if name.startswith("heap") else name.split("_own")[0].split("_rtalloc")[0] + "_stub"
    text_of_stub, data_of_stub = text_and_data(stub)
    found = bounds(name)
    for observed, bound in zip((max(most, refused), max(most_of_free, last)), found):
        if bound is not None and observed > bound:
            failed.append(f"{name}: {observed} instructions were executed, but the bound is {bound}")
    shown = ["none" if bound is None else f"{bound:,}" for bound in found]
    # The heap's memory is a variable in some programs.
    is_variable = name.startswith("heap") or name.endswith("rtalloc_small")
    variables = data - data_of_stub - (65535 + name.endswith("65536") if is_variable else 0)
    # An own malloc's bookkeeping is in variables and blocks; mallinfo knows the memory from sbrk alone.
    not_free = "" if "_own" in name else f"{control:,} + "
    label = NAMES.get(name) or f"{name.split('_rtalloc')[0]}, {NAMES[name[name.index('rtalloc'):]]}"
    print(f"| {label} | {not_free}{variables:,} B | {blocks} | {mean:,}, {most:,}, {shown[0]} "
          f"| {mean_of_free:,}, {most_of_free:,}, {shown[1]} | {refused:,}, {last:,} | {text - text_of_stub:,} B |")
if failed:
    sys.exit("\n".join(failed))
