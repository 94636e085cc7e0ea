"""Generates and tests the table crates/rtalloc-capi/src/bound/x86_64.rs: the steps of ci/capi_bounds.sh.

A bound holds of machine code. So the table has the code of each function that a proof covers: the compiler's, from the object file in
librtalloc.a, whose relocations say which bytes a linker fills in. bound/mod.rs describes the hash.
"""

import ctypes, json, random, re, struct, subprocess, sys

STRIDE, DATA = 16, 0xFFFF
OPERATIONS = ["malloc", "aligned_alloc", "free", "realloc_in_place"]
# Words of the pool, and reclaimed blocks, for which bounds are proved that grow with them.
WORDS, RECLAIMED = (1, 8, 64), (1, 4096)
PC32, PLT32, GOTPCREL = 2, 4, 9


class Elf:
    """Sections, functions and relocations of an x86-64 ELF file."""

    def __init__(self, data):
        self.data = data
        start, = struct.unpack_from("<Q", data, 0x28)
        self.is_linked = data[16] != 1
        count, = struct.unpack_from("<H", data, 0x3C)
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * at) for at in range(count)]
        self.symbols, self.relocations = [], {}
        for _, kind, _, _, offset, size, link, of_section, _, _ in self.sections:
            entries = range(offset, offset + size, 24)
            if kind == 2:
                names = self.sections[link][4]
                for at in entries:
                    name, info, _, section, value, length = struct.unpack_from("<IBBHQQ", data, at)
                    name = data[names + name : data.index(b"\0", names + name)].decode()
                    self.symbols.append((name, info & 15, section, value, length))
            elif kind == 4:
                of = [struct.unpack_from("<QQq", data, at) for at in entries]
                self.relocations[of_section] = sorted((at, info & 0xFFFFFFFF, info >> 32, add) for at, info, add in of)
        functions = [symbol for symbol in self.symbols if symbol[1] == 2 and symbol[2] != 0]
        self.by_name = {symbol[0]: symbol for symbol in functions}
        self.by_place = {symbol[2:4]: symbol for symbol in functions}

    def code(self, name):
        """The bytes of a function."""
        _, _, section, value, length = self.by_name[name]
        _, _, _, address, offset, *_ = self.sections[section]
        start = offset + value - (address if self.is_linked else 0)
        return self.data[start : start + length]

    def displacements(self, name):
        """The displacements that a linker fills in: offset, and the target function or None for data."""
        _, _, section, value, length = self.by_name[name]
        code, found = self.code(name), []
        for at, kind, symbol, add in self.relocations.get(section, []):
            if not value <= at < value + length:
                continue
            at -= value
            assert kind in (PC32, PLT32, GOTPCREL), f"{name}: relocation {kind} at {at}"
            # call, jmp, jcc
            if code[at - 1] in (0xE8, 0xE9) or code[at - 2] == 0x0F and code[at - 1] & 0xF0 == 0x80:
                assert kind != GOTPCREL
                _, _, target, offset, _ = self.symbols[symbol]
                found.append((at, self.by_place[target, offset + add + 4][0]))
            else:
                # Address modes without base and index: only a displacement from the next instruction.
                assert code[at - 1] & 0xC7 == 5, f"{name}: not a displacement at {at}"
                found.append((at, None))
        return found


def library(archive):
    """The object file of the library, without its dependencies."""
    data, at, found = open(archive, "rb").read(), 8, []
    while at < len(data):
        size = int(data[at + 48 : at + 58])
        member = data[at + 60 : at + 60 + size]
        if member[:4] == b"\x7fELF" and "rt_version" in (elf := Elf(member)).by_name:
            found.append(elf)
        at += 60 + size + size % 2
    object_file, = found
    return object_file


def covered(elf, roots, reporting):
    """The names of functions and everything they call, callers first; calls of `reporting` functions are not followed."""
    order, entered = [], set()

    def visit(name):
        assert name not in entered, f"{name} calls itself"
        if name not in order:
            entered.add(name)
            for _, callee in [] if name in reporting else elf.displacements(name):
                if callee is not None:
                    visit(callee)
            entered.remove(name)
            order.insert(0, name)

    for root in reversed(roots):
        visit(root)
    return order


def fnv(code, displacements):
    """The hash of a function, and its upper half before each stride except the first."""
    filled_in = {at + byte for at, _ in displacements for byte in range(4)}
    value, prefixes = 0xCBF29CE484222325, []
    for at, byte in enumerate(code):
        if at and at % STRIDE == 0:
            prefixes.append(value >> 32)
        if at not in filled_in:
            value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value, prefixes


def bounds(file):
    """The instruction bounds by function."""
    answers = {}
    for subject in json.load(open(file))["subjects"]:
        for operation in subject["operations"]:
            bounded = operation["answer"].get("bounded")
            if bounded:
                # Only the hook is left out, and what ends in it.
                assert not bounded["never_returning"], f"{operation['operation']}: {bounded['never_returning']}"
                not_called = bounded["not_called"]
                assert set(not_called) <= {"rtalloc::hook::report"}, f"{operation['operation']}: {not_called}"
            answers[operation["operation"]] = bounded["most"] if bounded else 0
    return answers


def split(symbol):
    """The allocator and the index of the operation."""
    name, verb = re.fullmatch(r"rt_(\w+)_(malloc|aligned_alloc|allocate|free|realloc_in_place)", symbol).groups()
    return name, OPERATIONS.index(verb.replace("allocate", "malloc"))


def linear(proved, symbol):
    """Of a function whose bounds were proved for all WORDS and RECLAIMED: the least bound, and what each word up to the second of WORDS,
    each beyond, and each reclaimed block adds at most.

    The bound for other numbers is not above: for fixed iteration counts it is the largest sum of a path, and each sum is linear in each
    number, so it is convex in each, and below every function that is linear between points where it is not below.
    """
    at = lambda words, reclaimed: proved[words, reclaimed][symbol]
    slope = lambda one, other, width: max(0, -((one - other) // width))
    (one, few, many), (once, often) = WORDS, RECLAIMED
    by_word = max(slope(at(one, count), at(few, count), few - one) for count in RECLAIMED)
    beyond = max(slope(at(few, count), at(many, count), many - few) for count in RECLAIMED)
    by_reclaimed = max(slope(at(words, once), at(words, often), often - once) for words in WORDS)
    least = at(one, once)
    for words in WORDS:
        for count in RECLAIMED:
            known = least + by_word * (min(words, few) - one) + beyond * max(0, words - few) + by_reclaimed * (count - once)
            assert known >= at(words, count), f"{symbol}: {known} with {words} words and {count} blocks, and {at(words, count)} was proved"
    return least, [by_word, beyond, by_reclaimed]


def table(archive, linked, of_shared, of_linked, certificates, with_lines, grown):
    """Prints the table. The proofs are of `linked` and `with_lines`, which have the code of the archive; those that grow, whose files begin
    with `grown`, are of the latter."""
    of_shared, of_linked = bounds(of_shared), bounds(of_linked)
    differing = [name for name in of_shared if of_shared[name] != of_linked[name]]
    assert not differing, {name: (of_shared[name], of_linked[name]) for name in differing}
    elf, allocators, growth = library(archive), {}, {}
    for symbol, most in of_shared.items():
        if most:
            allocators.setdefault(split(symbol)[0], {})[symbol] = most
    read = lambda file: [one["proof"] for one in json.load(open(file))]
    plain = Elf(open(linked, "rb").read()), read(certificates)
    proved = {(words, count): bounds(f"{grown}{words}_{count}.json") for words in WORDS for count in RECLAIMED}
    for symbol in proved[1, 1]:
        allocators.setdefault(split(symbol)[0], {})[symbol], growth[symbol] = linear(proved, symbol)
    growing = [one for words, count in proved for one in read(f"{grown}{words}_{count}.certificates.json")]
    growing = Elf(open(with_lines, "rb").read()), growing
    print("// The proved bounds of the library and the code of each proof, generated by ci/capi_bounds.sh --update: do not edit.\n")
    print("use super::{Function, Proof};\n")
    print("/// Words of a pool of usual length, and of the longest.")
    print(f"pub(crate) const FEW_WORDS: usize = {WORDS[1]};\npub(crate) const MOST_WORDS: usize = {WORDS[2]};")
    print(f"/// Most reclaimed blocks.\npub(crate) const MOST_RECLAIMED: usize = {RECLAIMED[1]};\n")
    print("/// By allocator.")
    print("pub(crate) const PROVED: &[(&str, Proof)] = &[")
    for name, roots in allocators.items():
        is_growing = any(symbol in growth for symbol in roots)
        linked, proofs = growing if is_growing else plain
        names = {symbol[3]: name for name, symbol in linked.by_name.items()}
        reporting, addresses = set(), set()
        for symbol in roots:
            found = [proof for proof in proofs if int(proof["entry"], 16) == linked.by_name[symbol][3]]
            assert found and all(proof["unit"] == "instructions" and not proof["conflicts"] for proof in found)
            # The facts about loops are those of the source.
            assert is_growing or all(not proof["loops"] and proof["most"] == roots[symbol] for proof in found)
            reporting |= {names[int(end["address"], 16)] for proof in found for end in proof["never_returning"]}
            for case in (case for proof in found for case in proof["cases"]):
                addresses |= {int(at, 16) for at in [*case["potentials"], *case["no_return"], *case["avoid"]]}
        functions = covered(elf, list(roots), reporting)
        # Every instruction of the proof is in one of these functions, and the linked program has the same code.
        for function in functions:
            start, length = linked.by_name[function][3:]
            addresses -= set(range(start, start + length))
            code, displacements = elf.code(function), elf.displacements(function)
            assert length == len(code) and fnv(code, displacements) == fnv(linked.code(function), displacements), function
            for at, callee in displacements:
                target = start + at + 4 + struct.unpack_from("<i", linked.code(function), at)[0]
                assert callee is None or target == linked.by_name[callee][3], f"{function} + {at}"
        assert not addresses, f"{name}: {min(addresses):#x} is in no function"
        operations = ["(0, 0)"] * len(OPERATIONS)
        for symbol, most in roots.items():
            operations[split(symbol)[1]] = f"({most}, {functions.index(symbol)})"
        by_operation = {split(symbol)[1]: growth.get(symbol, [0] * 3) for symbol in roots}
        growths = str([by_operation.get(operation, [0] * 3) for operation in range(len(OPERATIONS))]) if is_growing else "[[0; 3]; 4]"
        print(f'("{name}", Proof {{ operations: [{", ".join(operations)}], growth: {growths}, functions: &[')
        all_prefixes, all_displacements = [], []
        for function in functions:
            code, displacements = elf.code(function), elf.displacements(function)
            # The hook called by a function that reports misuse belongs to the program.
            leads = [None if callee is None or function in reporting else functions.index(callee) for _, callee in displacements]
            value, prefixes = fnv(code, displacements)
            print(f"Function {{ bytes: {len(code)}, displacements: {len(displacements)}, hash: {value:#018x} }},")
            all_prefixes += [f"{prefix:#010x}" for prefix in prefixes]
            all_displacements += [(at, DATA if to is None else to) for (at, _), to in zip(displacements, leads)]
        print(f"], prefixes: &[{', '.join(all_prefixes)}], displacements: &{all_displacements} }}),")
    print("];")


def answers(program):
    """The output of a program (allocator and a bound per operation, by line), by allocator; those of arenas with a pool of few words and of many."""
    lines = subprocess.run([program], check=True, capture_output=True, text=True).stdout.splitlines()
    return {name: [int(bound) for bound in rest] for name, *rest in map(str.split, lines)}


def in_table(file):
    """The bounds of the table, by allocator as in the output of the program."""
    found = {}
    for name, operations, growth in re.findall(r'"(\w+)",\s*Proof \{\s*operations: \[(.*?)\],\s*growth: (.*?),\s*functions', open(file).read(), re.S):
        least = [int(bound) for bound in re.findall(r"\((\d+), \d+\)", operations)]
        if ";" in growth:
            found[name] = least
            continue
        growth = json.loads(re.sub(r",\s*\]", "]", growth))
        # The heaps of the program: 1 word and 1 reclaimed block; as many words as by default, and 2 blocks; 32 words, and 9 blocks.
        for title, (words, count) in {f"{name}_of_one": (1, 1), name: (8, 2), f"{name}_of_many": (32, 9)}.items():
            numbers = min(words, WORDS[1]) - 1, max(0, words - WORDS[1]), count - 1
            found[title] = [bound + sum(map(int.__mul__, more, numbers)) for bound, more in zip(least, growth)]
    return found


def known(file, program):
    """A program returns exactly the bounds of the table."""
    proved, returned = in_table(file), answers(program)
    for name, bounds in returned.items():
        expected = proved.get(name, [0] * len(OPERATIONS))
        assert bounds == expected, f"{program}: {name} returns {bounds}, and {expected} was proved"
    assert not set(proved) - set(returned)


def unknown(file, program, of_program):
    """A program with other code returns only bounds proved for its own code, and for some of it none. Its code is compiled in several
    units without link-time optimisation: what is allocated and freed still takes at most a tenth and 5 instructions more, because
    the small functions of hot paths are inlined anyway."""
    proved, own, returned = in_table(file), bounds(of_program), answers(program)
    compared = unknown = 0
    for symbol, most in own.items():
        name, operation = split(symbol)
        bound = returned[name][operation]
        shipped = proved.get(name, [0] * len(OPERATIONS))[operation]
        # Bounds of arenas need facts about loops.
        if shipped and name != "arenas" and operation < OPERATIONS.index("realloc_in_place"):
            compared += 1
            assert 0 < most <= shipped * 1.1 + 5, f"{symbol}: at most {most or 'an unknown number of'} instructions, {shipped} in the library"
        unknown += shipped != 0 and bound == 0
        assert bound in (0, shipped), f"{symbol} returns {bound}"
        assert bound in (0, most), f"{symbol} returns {bound}, but {most} was proved for its code"
    assert compared >= 50, f"only {compared} operations could be compared"
    assert unknown > 0, "other code has all bounds of the library's"
    count = sum(bound != 0 for bounds in returned.values() for bound in bounds)
    print(f"another build: {unknown} operations unknown; {count} have the same code as proved, and their bounds; {compared} compared")


def flipped(file, archive, shared):
    """With one bit of the code of TLSF in memory flipped, the operation has no known bound; with the bit restored, it has."""
    elf, linked, loaded = library(archive), Elf(open(shared, "rb").read()), ctypes.CDLL(shared)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    loaded.rt_tlsf_bound.restype = ctypes.c_uint64
    base = ctypes.cast(loaded.rt_version, ctypes.c_void_p).value - linked.by_name["rt_version"][3]
    proved, count = in_table(file)["tlsf"], 0
    for operation, verb in enumerate(OPERATIONS):
        root = f"rt_tlsf_{verb}"
        assert loaded.rt_tlsf_bound(operation) == proved[operation] != 0
        for function in covered(elf, [root], {name for name in elf.by_name if "4hook6report" in name}):
            start, code = base + linked.by_name[function][3], elf.code(function)
            page = start & ~4095
            assert libc.mprotect(page, start + len(code) - page, 7) == 0, ctypes.get_errno()
            at_data = {at + byte for at, callee in elf.displacements(function) for byte in range(4)}
            # Only the lowest byte of a call: a higher byte might lead to unmapped memory.
            at_calls = {at for at, callee in elf.displacements(function) if callee is not None}
            places = [at for at in range(len(code)) if at not in at_data or at in at_calls and "4hook6report" not in function]
            # The first, the last, and some bits between.
            for at in {places[0], places[-1], *random.sample(places, min(64, len(places)))}:
                for bit in range(8):
                    byte = ctypes.c_uint8.from_address(start + at)
                    byte.value ^= 1 << bit
                    answer = loaded.rt_tlsf_bound(operation)
                    byte.value ^= 1 << bit
                    count += 1
                    assert answer == 0, f"{function} + {at}, bit {bit} flipped: {answer}"
        assert loaded.rt_tlsf_bound(operation) == proved[operation]
    print(f"{count} flipped bits, each detected")


{"table": table, "known": known, "unknown": unknown, "flipped": flipped}[sys.argv[1]](*sys.argv[2:])
