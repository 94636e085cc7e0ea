"""Work for the Python interpreter and its built-in types."""
import sys


class Shape:
    def __init__(self, side):
        self.side = side

    @property
    def area(self):
        return self.side**2

    def __lt__(self, other):
        return self.side < other.side


def numbers():
    for n in range(40):
        yield n * 3 % 17


total = 0
for turn in range(6):
    words = "one two three four five Zürich 6.5e3".split()
    total += sum(len(w) for w in words) + len({w[0] for w in words}) + len(sorted(words, key=str.lower, reverse=True))
    table = {w: i for i, w in enumerate(words)}
    table.update(x=1, y=2.5)
    total += hash(tuple(table)) % 7 + int("ff", 16) + round(float("2.75") * 3) + 10**30 // 7**12 % 1000 - (-7) // 2 + (1 << 70 ^ 99) % 13
    text = f"{turn:>5} {3.14159:.3e} {10**20:,} {'ab' * 3!r}" + "%s %05d %x" % ("q", 42, 255) + ",".join(map(str, numbers()))
    total += text.find("41") + text.count("1") + len(text.replace("1", "22").upper().encode("utf-16")) + text.startswith(" ")
    data = bytearray(text, "utf-8")
    data[3:9] = b"abc"
    total += data.index(b"a") + len(bytes(data).hex()) + memoryview(data)[2]
    shapes = sorted(Shape(n) for n in numbers())
    total += max(s.area for s in shapes) + shapes[3].side + isinstance(shapes, list)
    try:
        [][turn]
    except IndexError as error:
        total += len(str(error))
    try:
        {}["x"] / 0
    except (KeyError, ZeroDivisionError):
        total += 1
    a, *b = list(numbers())
    b.extend(reversed(b[::2]))
    b.sort()
    total += b.pop() + any(b) + all(b) + frozenset(b).issuperset({1}) + complex(1, 2).real + min(b, default=0) + divmod(99, 7)[1]
    exec(compile("q = [x for x in range(9) if x & 1]; w = lambda *a, **k: (a, k)", "<s>", "exec"), table)
    total += table["w"](*table["q"], z=3)[1]["z"]
sys.stdout.write(f"{total}\n")
