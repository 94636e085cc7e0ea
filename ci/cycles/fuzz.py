"""Prints a random program for ci/cycles/start.S: `fuzz.py SEED ISA`, where ISA is i, imc or imc_zb.

The function `fuzz` has blocks of random instructions. Between them are branches, jumps and calls to targets at both
alignments, most of them forward; small loops and one outer loop are the only backward ones, so the program ends. Data
accesses are aligned.
"""

import random
import sys

seed, isa = int(sys.argv[1]), sys.argv[2]
choose = random.Random(seed)
LOOP, OUTER, BASE, POINTER = "gp", "tp", "s0", "s1"
# Half of them have compressed forms.
REGISTERS = "t0 t1 t2 t3 a0 a1 a2 a3 a4 a5 a6 s2".split()
IMMEDIATE = "addi slti sltiu xori ori andi".split()
BRANCHES = "beq bne blt bge bltu bgeu".split()
SHIFTS = "sll srl sra".split()
BINARY = "add sub slt sltu xor or and".split()
MULTIPLY = "mul mulh mulhsu mulhu div divu rem remu".split()
ZB_BINARY = "sh1add sh2add sh3add andn orn xnor min minu max maxu rol ror bset bclr binv bext".split()
ZB_UNARY = "clz ctz cpop sext.b sext.h zext.h rev8 orc.b".split()
ZB_IMMEDIATE = "rori bseti bclri binvi bexti".split()
BLOCKS, LEAVES = 60, 6
# The data: the address of the block or leaf that each block jumps to, words with the data's own address, and from
# offset 0, where loads and stores can be compressed, random words.
OWN, WORDS = 4, 64
TABLE = -4 * (OWN + BLOCKS)
jumps = [f"leaf{block % LEAVES}" for block in range(BLOCKS)]
last = "t0"


def source():
    """A register to read: often the last one written."""
    return choose.choice([last, last, choose.choice(REGISTERS), choose.choice(REGISTERS), "zero"])


def target():
    """A register to write."""
    global last
    last = choose.choice([*REGISTERS, *REGISTERS, "zero"])
    return last


def written(a):
    """A register to write: often the source `a`, as compressed instructions do."""
    global last
    if a == "zero" or choose.random() < 0.6:
        return target()
    last = a
    return a


def access():
    """A load or a store."""
    base, words = choose.choice([(BASE, WORDS), (BASE, WORDS), (POINTER, WORDS), ("sp", 7)])
    if base == POINTER:
        print(f"    lw {POINTER}, {-4 * choose.randint(1, OWN)}({BASE})")
    size, loads, store = choose.choice([(1, ["lb", "lbu"], "sb"), (2, ["lh", "lhu"], "sh"), *[(4, ["lw"], "sw")] * 3])
    offset = size * choose.randrange(4 * choose.choice([words, 7]) // size)
    if choose.random() < 0.6:
        print(f"    {choose.choice(loads)} {target()}, {offset}({base})")
    else:
        print(f"    {store} {source()}, {offset}({base})")


def instruction():
    """An instruction that does not jump."""
    a, b = source(), source()
    kinds = [
        lambda: print(f"    {choose.choice(IMMEDIATE)} {written(a)}, {a}, {choose.choice([-32, -1, 0, 1, 31, 1000])}"),
        lambda: print(f"    {choose.choice(BINARY)} {written(a)}, {a}, {b}"),
        lambda: print(f"    {choose.choice(SHIFTS)} {written(a)}, {a}, {b}"),
        lambda: print(f"    {choose.choice(SHIFTS)}i {written(a)}, {a}, {choose.randrange(32)}"),
        lambda: print(f"    {choose.choice(['lui', 'auipc'])} {target()}, {choose.choice([1, 31, 0xfffff])}"),
        lambda: print(f"    li {target()}, {choose.choice([0, 1, -1, -2 ** 31, choose.getrandbits(32)])}"),
        access, access, access, access,
    ]
    if "m" in isa:
        kinds.append(lambda: print(f"    {choose.choice(MULTIPLY)} {written(a)}, {a}, {b}"))
    if "zb" in isa:
        kinds += [
            lambda: print(f"    {choose.choice(ZB_BINARY)} {written(a)}, {a}, {b}"),
            lambda: print(f"    {choose.choice(ZB_UNARY)} {written(a)}, {a}"),
            lambda: print(f"    {choose.choice(ZB_IMMEDIATE)} {written(a)}, {a}, {choose.randrange(32)}"),
        ]
    choose.choice(kinds)()


def block(instructions):
    """A few instructions, each compressed if it can be in half of the blocks."""
    print(f"    .option {choose.choice(['rvc', 'norvc']) if 'c' in isa else 'norvc'}")
    for _ in range(instructions):
        instruction()


def control(index):
    """A jump or a branch out of a block, or none. It skips a block: a trace does not show whether a branch to the next
    instruction was taken."""
    ahead = f"block{choose.randrange(index + 2, min(index + 4, BLOCKS) + 1)}"
    kind = choose.randrange(8)
    if kind < 4:
        print(f"    {choose.choice(BRANCHES)} {source()}, {choose.choice([source(), 'zero'])}, {ahead}")
    elif kind == 4:
        print(f"    j {ahead}")
    elif kind == 5:
        print(f"    {choose.choice(['call', 'jal'])} {jumps[index]}")
    elif kind == 6:
        link = choose.choice(["ra", "zero", "t1"])
        if link != "ra":
            jumps[index] = ahead
        print(f"    lw t0, {TABLE + 4 * index}({BASE})")
        if choose.random() < 0.5:
            print(f"    addi {choose.choice(['t2', 'a0'])}, a1, 5")
        print(f"    jalr {link}, t0")


print("    .text\n    .globl fuzz\nfuzz:\n    addi sp, sp, -32\n    sw ra, 28(sp)")
print(f"    la {BASE}, data\n    li {OUTER}, 20")
for register in REGISTERS:
    print(f"    li {register}, {choose.choice([0, 1, -1, choose.getrandbits(32)])}")
print("block0:")
for index in range(1, BLOCKS):
    print(f"block{index}:")
    looped = choose.random() < 0.1
    if looped:
        print(f"    li {LOOP}, 3\n700:")
    block(1 + choose.randrange(8))
    if looped:
        print(f"    addi {LOOP}, {LOOP}, -1\n    bnez {LOOP}, 700b")
    elif index < BLOCKS - 1:
        control(index)
print(f"block{BLOCKS}:\n    addi {OUTER}, {OUTER}, -1\n    beqz {OUTER}, 800f\n    j block0\n800:")
print("    lw ra, 28(sp)\n    addi sp, sp, 32\n    ret")
for leaf in range(LEAVES):
    print(f"leaf{leaf}:")
    block(choose.randrange(6))
    print("    ret")
print(f"    .data\n    .balign 16\n    .word {', '.join(jumps)}")
print(f"    .word {', '.join(['data'] * OWN)}\ndata:")
for _ in range(WORDS):
    print(f"    .word {choose.getrandbits(32):#x}")
