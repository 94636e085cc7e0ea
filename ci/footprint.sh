#!/usr/bin/env bash
# Compares the part of the C library that a program carries, by allocator, with docs/FOOTPRINT.md; with --update,
# rewrites that file. A program that uses one allocator carries no other one. Sizes may differ by 64 bytes and a
# fiftieth; with another compiler than the table names, by 64 bytes and a tenth.
# Needs: an x86-64 Linux machine, rustup (adds the target thumbv7em-none-eabihf), python3. Takes: a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the table has the sizes of x86-64 code" >&2
    exit 77
fi
export CARGO_INCREMENTAL=0
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
target=${CARGO_TARGET_DIR:-target}
bare=thumbv7em-none-eabihf
linker=$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-linux-gnu/bin/rust-lld
ci/target.sh "$bare"
[ -x "$linker" ] || { echo "no rust-lld with this compiler: install the compiler with rustup, then run this again" >&2; exit 1; }
cargo build --quiet -p rtalloc-capi --profile c
cargo rustc --quiet -p rtalloc-capi --profile c --target "$bare" --crate-type staticlib

measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/footprint.sh --update\`."
python3 - "$linker" "$target" "$bare" "$(rustc --version)" "$measured" "${1:-}" <<'PY'
import os, re, struct, subprocess, sys, tempfile

linker, target, bare, compiler, measured, mode = sys.argv[1:]
preprocessed = subprocess.run(["cc", "-E", "-P", "crates/rtalloc-capi/include/rtalloc.h"], capture_output=True, text=True, check=True).stdout
header = preprocessed.replace("; ", ";\n")
names = re.findall(r"^\w.*\brt_(\w+)_init\(", header, re.M)
DOCUMENT = "docs/FOOTPRINT.md"
# What a program must call, besides init, to use an allocator of each kind.
VERBS = [["malloc", "free"], ["claim", "malloc", "free"], ["allocate", "locate", "free"],
         ["claim", "allocate", "free", "pin", "unpin"]]

def declares(name, verb):
    return re.search(rf"\brt_{name}_{verb}\(", header) is not None

def kind(name):
    """The functions of an allocator's kind: the longest list that the allocator has completely."""
    return max((verbs for verbs in VERBS if all(declares(name, verb) for verb in verbs)), key=len)

def owner(symbol):
    """The allocator that a symbol belongs to."""
    return max((name for name in names if symbol.startswith(f"rt_{name}_")), key=len, default=None)

class Elf:
    """Sections and symbols of an ELF file of either width."""
    def __init__(self, path):
        self.data = data = open(path, "rb").read()
        wide = data[4] == 2
        offset = struct.unpack_from("<Q" if wide else "<I", data, 0x28 if wide else 0x20)[0]
        size, count, names = struct.unpack_from("<HHH", data, 0x3A if wide else 0x2E)
        layout = "<IIQQQQII" if wide else "<IIIIIIII"
        raw = [struct.unpack_from(layout, data, offset + at * size) for at in range(count)]
        self.sections = [(self.text(raw[names][4], one[0]), *one[1:]) for one in raw]
        self.symbols = []
        for name, of_type, _, _, start, length, link, _ in self.sections:
            if of_type == 2:
                step = 24 if wide else 16
                for at in range(start, start + length, step):
                    if wide:
                        word, info, _, _, address, _ = struct.unpack_from("<IBBHQQ", data, at)
                    else:
                        word, address, _, info, _, _ = struct.unpack_from("<IIIBBH", data, at)
                    self.symbols.append((self.text(self.sections[link][4], word), address, info))

    def text(self, table, at):
        start = table + at
        return self.data[start:self.data.index(b"\0", start)].decode()

    def sizes(self):
        """Bytes of code and constants, of initialised data, and of zeros."""
        text = data = zeros = 0
        for name, of_type, flags, _, _, length, _, _ in self.sections:
            if not flags & 2 or name in (".eh_frame", ".eh_frame_hdr", ".ARM.exidx", ".ARM.extab", ".relro_padding"):
                continue
            if of_type == 8:
                zeros += length
            elif flags & 1:
                data += length
            else:
                text += length
        return text, data, zeros

def linked(name, library, path):
    """Sizes of the smallest program that uses an allocator; it must carry nothing of the others."""
    roots = [f"rt_{name}_{verb}" for verb in ["init", *kind(name)]]
    command = [linker, "-flavor", "gnu", "--gc-sections", "-e", roots[0], "-o", path]
    subprocess.run([*command, *(f"--undefined={root}" for root in roots), library], check=True)
    elf = Elf(path)
    shown = {symbol: address for symbol, address, info in elf.symbols if info >> 4 == 1 and symbol.startswith("rt_")}
    used = {shown[root] for root in roots}
    # Identical functions of two allocators are merged and have both names.
    others = [symbol for symbol, address in shown.items() if address not in used and owner(symbol) != name]
    if others:
        sys.exit(f"a program that uses only rt_{name} contains {', '.join(others)}")
    return elf.sizes()

rows = []
with tempfile.TemporaryDirectory() as work:
    path = os.path.join(work, "program")
    for name in names:
        rows.append((name, *linked(name, f"{target}/c/librtalloc_c.a", path),
                     *linked(name, f"{target}/{bare}/c/librtalloc_c.a", path)))

def table(rows):
    lines = ["| allocator | text | data | bss | text | data | bss |", "|---|---|---|---|---|---|---|"]
    return lines + [f"| `{name}` | " + " | ".join(f"{size:,}" for size in sizes) + " |" for name, *sizes in rows]

page = f"""# What a program carries

Bytes of the C library in a program that only initialises a heap, allocates and frees. With heaps that threads share it
also claims a slot; with objects that move it also locates or pins them. The linker removes functions that are not
called (`--gc-sections`), so nothing of another allocator is left, which `ci/footprint.sh` verifies. The heap itself,
control structure included, is in the memory that the program provides.

*text*: code and constants, without unwind tables, which a program without exceptions can omit. *data*: initialised
variables. *bss*: the misuse hooks. The first three columns are for x86-64 Linux, the others for
{bare}, a Cortex-M4; both optimised for speed by
{compiler}.

A program that calls `rt_X_bound` also carries every operation of the allocator that can have a bound, the description
of their code, and the comparison of the code in memory with it, but nothing of another allocator.

""" + "\n".join(table(rows)) + f"\n\n{measured}\n"

if mode == "--update":
    open(DOCUMENT, "w").write(page)
    print(f"{DOCUMENT} written: {len(rows)} allocators")
    sys.exit()
committed = open(DOCUMENT).read()
# An unrelated change moves code and its padding; another compiler changes more.
share = 50 if compiler in committed.replace("\n", " ") else 10
known = {name: [int(size.replace(",", "")) for size in sizes.split(" | ")]
         for name, sizes in re.findall(r"^\| `(\w+)` \| (.*) \|$", committed, re.M)}
wrong = [name for name, *sizes in rows
         if name not in known or any(abs(size - before) > before / share + 64 for size, before in zip(sizes, known[name]))]
wrong += [name for name in known if name not in names]
if wrong:
    for name, *sizes in rows:
        if name in wrong:
            print(f"{name}: {sizes}, in {DOCUMENT} {known.get(name)}")
    sys.exit(f"{DOCUMENT} does not match the linked programs: run ci/footprint.sh --update, in a commit that says why")
print(f"{len(rows)} allocators have the sizes of {DOCUMENT}, to one part in {share}")
PY
