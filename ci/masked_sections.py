"""Usage: masked_sections.py PROGRAM LIMIT COPY. Finds what a program executes between an instruction that turns
interrupts off and the one that restores the mask, prints the longest, and fails if it has more than LIMIT instructions,
including the last. Writes a copy of the program that leaves interrupts on there. Reads llvm-objdump's listings of
Armv6-M and RISC-V; ci/firmware.sh calls it."""

import re
import struct
import subprocess
import sys

program, limit, copy = sys.argv[1], int(sys.argv[2]), sys.argv[3]
listing = subprocess.run(["llvm-objdump", "-d", "--no-show-raw-insn", program], capture_output=True, text=True,
                         check=True).stdout
# Address, mnemonic and operands of every instruction, in order.
LINE = re.compile(r"^ *([0-9a-f]+): +\t([a-z][\w.]*)(?:[\t ](.*))?$", re.M)
code = [(int(address, 16), mnemonic, operands.split(" <")[0].split(" @")[0].strip())
        for address, mnemonic, operands in LINE.findall(listing)]
after = {here[0]: following[0] for here, following in zip(code, code[1:])}
at = {address: (mnemonic, operands) for address, mnemonic, operands in code}

# Instructions that leave interrupts off and continue with the next one, except for the conditional branches.
PLAIN = {"ldr", "ldrb", "str", "strb", "adds", "ands", "orrs", "cmp", "movs", "mov",
         "lw", "lbu", "sw", "sb", "add", "and", "or", "andi", "mv"}
BRANCH = {"beq", "bne"}


def masks(mnemonic, operands):
    """Whether an instruction saves the mask and turns interrupts off, or on Arm, turns them off."""
    return mnemonic == "cpsid" or mnemonic == "csrrci" and operands.endswith("mstatus, 8")


def restores(mnemonic, operands):
    """Whether an instruction restores the mask."""
    return mnemonic == "msr" and operands.startswith("primask") or mnemonic == "csrs" and operands.startswith("mstatus")


def longest(address):
    """Most instructions from an address to the one that restores the mask, and their addresses."""
    mnemonic, operands = at[address]
    if restores(mnemonic, operands):
        return 1, {address}
    following = [after[address]]
    if mnemonic in BRANCH:
        following.append(int(operands.split()[-1], 16))
    elif mnemonic not in PLAIN:
        sys.exit(f"{address:#x}: {mnemonic} {operands}: in a section with interrupts off")
    if min(following) <= address:
        sys.exit(f"{address:#x}: {mnemonic} {operands}: a loop with interrupts off")
    found = [longest(one) for one in following]
    return 1 + max(count for count, _ in found), {address}.union(*(addresses for _, addresses in found))


# Where each segment is: kind, offset, virtual and physical address, bytes in the file.
image = bytearray(open(program, "rb").read())
table, = struct.unpack_from("<I", image, 28)
size, count = struct.unpack_from("<HH", image, 42)
segments = [struct.unpack_from("<IIIII", image, table + size * index) for index in range(count)]


def offset_of(address):
    """Where an address is in the file."""
    return next(offset + address - start for kind, offset, start, _, length in segments
                if kind == 1 and start <= address < start + length)


begin = [address for address, mnemonic, operands in code if masks(mnemonic, operands)]
sections = [longest(after[address]) for address in begin]
inside = set().union(*(addresses for _, addresses in sections))
ends = {address for address, mnemonic, operands in code if restores(mnemonic, operands)}
if ends - inside:
    sys.exit(f"the mask is restored where no section ends: {[hex(address) for address in ends - inside]}")
for address, mnemonic, operands in code:
    # Every address that another instruction may continue at.
    target = re.search(r"0x([0-9a-f]+)$", operands)
    # Not the bytes 0xD4 with which the linker fills gaps between functions.
    if target and address not in inside and int(target[1], 16) in inside and image[offset_of(address):][:2] != b"\xD4\xD4":
        sys.exit(f"{address:#x}: {mnemonic} {operands}: enters a section with interrupts off")
if not sections:
    sys.exit("no section with interrupts off")
most = max(count for count, _ in sections)
print(f"{len(sections)} sections with interrupts off, the longest has {most} instructions, stated {limit}")
if most > limit:
    sys.exit("longer than stated")

for address in begin:
    offset = offset_of(address)
    if at[address][0] == "cpsid":
        struct.pack_into("<H", image, offset, 0xBF00)  # nop
    else:
        word, = struct.unpack_from("<I", image, offset)
        struct.pack_into("<I", image, offset, word & ~0x000FF000 | 0x2000)  # csrr
open(copy, "wb").write(image)
