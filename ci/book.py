"""What ci/book.sh asks of the book's sources: performs shell blocks, compares outputs, and holds tables against committed figures.

Every fence of every chapter is of one of these kinds, or this fails:

    rust...         a documentation test of crates/rtalloc (lib.rs names the chapters)
    c, cpp          compiled and run by crates/rtalloc-capi/tests/book.rs
    sh              performed here, in the order of the page, in a folder that is empty when the page begins
    sh,setup        performed before: each of its commands stands in ci/book.sh
    sh,elsewhere    not performed; its first line says why: `# Elsewhere: ...`
    text            what the block in front of it printed; `...` stands for lines left out
    text,varies     the same, where any number may differ
    text,drawing    a picture or a formula
    anything else   must be written to a file: `<!-- file: NAME -->` in front of it, which rust, c and cpp may have as well
"""

import json
import os
import pathlib
import re
import subprocess
import sys

LINES_LEFT_OUT = "..."
# Letters of a line of code that a page shows.
WIDEST = 106


class Block:
    """A fence, with where it stands."""

    def __init__(self, chapter, line, info, file):
        self.chapter, self.line, self.info, self.file = chapter, line, info, file
        self.kind = re.split(r"[,\s]", info)[0]
        self.text = ""

    def fail(self, why):
        sys.exit(f"docs/book/src/{self.chapter}:{self.line}: {why}")


def blocks_of(root, path):
    """All fences of a chapter, in order."""
    chapter = str(path.relative_to(root))
    blocks, current, file, in_list = [], None, None, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*(`{3,}|~{3,})(.*)$", line)
        if current is not None:
            if fence and not fence.group(2).strip() and fence.group(1).startswith(current.ticks):
                blocks.append(current)
                current = None
            else:
                current.text += line + "\n"
        elif fence:
            current = Block(chapter, number, fence.group(2).strip(), file)
            current.ticks = fence.group(1)
            file = None
        elif named := re.match(r"<!-- file: (\S+) -->$", line):
            file = named.group(1)
        elif line.strip():
            if file is not None:
                sys.exit(f"docs/book/src/{chapter}:{number}: no block after `file: {file}`")
            in_list = in_list and line.startswith(" ") or bool(re.match(r"\s*([-*]|\d+\.) ", line))
            if line.startswith("    ") and not in_list:
                sys.exit(f"docs/book/src/{chapter}:{number}: an indented block is code that nothing checks; use a fence")
    if current is not None:
        current.fail("a fence without an end")
    for block in blocks:
        wide = [line for line in block.text.splitlines() if len(line) > WIDEST and line[0] not in "#~"]
        if wide and block.kind != "text":
            block.fail(f"wider than the page, which shows {WIDEST} characters: {wide[0]}")
    return blocks


def as_written(block):
    """The block as a compiler sees it: hidden lines included."""
    if block.kind == "rust":
        return re.sub(r"^# ?(?!\[|!)", "", block.text, flags=re.M)
    if block.kind in ("c", "cpp"):
        return re.sub(r"^~", "", block.text, flags=re.M)
    return block.text


def agrees(expected, printed, varies):
    """Whether what was printed is what the book says."""

    def normal(line):
        line = line.rstrip()
        if not varies:
            return line
        line = re.sub(r"0x[0-9a-f]+|\d[\d,.]*( [KMG]iB)?", "#", line)
        line = re.sub(r"[-─]{4,}", "----", line)
        return re.sub(r"\s+", " ", line)

    expected = [normal(line) for line in expected.rstrip("\n").split("\n")]
    printed = [normal(line) for line in printed.rstrip("\n").split("\n")]
    # reachable[i]: the first i lines of the book agree with what was printed so far.
    reachable = {0}

    def closed(states):
        more = set(states)
        for state in sorted(states):
            while state < len(expected) and expected[state].strip() == LINES_LEFT_OUT:
                state += 1
                more.add(state)
        return more

    reachable = closed(reachable)
    for line in printed:
        following = set()
        for state in reachable:
            if state < len(expected) and expected[state].strip() == LINES_LEFT_OUT:
                following.add(state)
            elif state < len(expected) and expected[state] == line:
                following.add(state + 1)
        reachable = closed(following)
    return len(expected) in reachable


def perform(block, folder):
    """Runs a block as one script; what it printed on standard output."""
    # The environment a block exports is there in the next one, and so is the folder it went to.
    state = folder / ".state"
    script = (f'[ ! -f "{state}" ] || . "{state}"\n{block.text}\n'
              f'{{ export -p; printf "cd %q\\n" "$PWD"; }} > "{state}"\n')
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", timeout=900)
    if done.returncode != 0:
        block.fail(f"exit status {done.returncode}\n{block.text}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def perform_chapter(blocks, folder):
    """Files written, shell blocks performed, outputs compared. How many of the latter two."""
    performed, compared, last = 0, 0, None
    for block in blocks:
        if block.file is not None:
            target = folder / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(as_written(block), encoding="utf-8")
        if block.info == "sh":
            last, performed = perform(block, folder), performed + 1
        elif block.info in ("text", "text,varies"):
            if last is None:
                block.fail("the output of nothing: a block that prints stands in front, or it is `text,drawing`")
            if last is not ELSEWHERE:
                compared += 1
                if not agrees(block.text, last, block.info != "text"):
                    block.fail(f"the book says\n{block.text}\nbut this was printed:\n{last}")
            last = None
        elif block.info == "sh,elsewhere":
            if not block.text.startswith("# Elsewhere: "):
                block.fail("a block that is not performed says why in its first line: `# Elsewhere: ...`")
            last = None
        elif block.kind in ("c", "cpp"):
            # Their output is compared by the test that runs them.
            last = ELSEWHERE
        elif block.kind == "rust":
            if "ignore" in block.info:
                block.fail("`ignore` would leave it unchecked")
            last = None
        elif block.info == "sh,setup":
            check_setup(block)
            last = None
        elif block.info == "text,drawing":
            last = None
        elif block.file is None:
            block.fail(f"no test checks a fence of the kind `{block.info}`: see ci/book.py")
    return performed, compared


# In place of an output that others compare.
ELSEWHERE = object()


def check_setup(block):
    """Whether ci/book.sh does what the reader has to do first."""
    script = pathlib.Path(__file__).with_name("book.sh").read_text(encoding="utf-8").replace(" --quiet", "")
    # A variable that is set already is kept.
    script = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", script)
    for line in block.text.splitlines():
        if (command := line.split("#")[0].strip()) and command not in script:
            block.fail(f"ci/book.sh does not do this: {command}")


class Committed:
    """What committed files say of an allocator."""

    def __init__(self, repository):
        self.tables = json.loads((repository / "docs/reproduction.json").read_text(encoding="utf-8"))["tables"]
        self.bounds = json.loads((repository / "bounds/x86_64.json").read_text(encoding="utf-8"))["bounds"]

    def cell(self, table, allocator, column):
        """A cell of the report; `-` where there is none."""
        heads = {head.replace("- ", "").strip(): at for at, head in enumerate(self.tables[table]["allocator"])}
        row = self.tables[table].get(allocator)
        # A letter after the figure names the adversary.
        return row[heads[column]].split(" ")[0] if row and column in heads else "-"

    def bound(self, allocator, operation):
        """The static bound, or its cost per iteration."""
        known = self.bounds.get(allocator)
        if known is None:
            return self.cell("All allocators", allocator, f"{'free' if operation == 'deallocate' else operation} at most")
        if operation in known:
            return f"{known[operation]:,}"
        units = [key.split(", per ")[1] for key in known if key.startswith(f"{operation}, per ")]
        return " + ".join([str(known[f"{operation}, base"])] + [f"{known[f'{operation}, per {unit}']} per {unit}" for unit in units])

    def figure(self, allocator, head):
        """What belongs into a column of a table of the book."""
        if head in ("allocate", "free"):
            return self.bound(allocator, {"free": "deallocate"}.get(head, head))
        if head == "heap / M on programs":
            cells = self.tables["Smallest heap / live memory M of each trace"][allocator][:-1]
            assert len(cells) == 7, cells
            return "-" if "-" in cells else f"{min(cells, key=float)} to {max(cells, key=float)}"
        size = re.search(r"n = \d+$", head)
        if not size:
            return None
        if head.startswith("guaranteed"):
            return self.cell("The worst of all adversaries: memory needed over M: Guaranteed heap sizes / M", allocator, size.group())
        return self.cell("The worst of all adversaries: memory needed over M", allocator, size.group())


def check_tables(chapter, path, committed):
    """Holds every table behind `<!-- held against ... -->` against committed files. How many cells."""
    held, heads, expect = 0, None, False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else None
        if line.startswith("<!-- held against "):
            expect = True
        elif expect and cells:
            heads, expect = cells, False
        elif cells is None:
            if expect and line:
                sys.exit(f"docs/book/src/{chapter}:{number}: a table is missing")
            heads = None
        elif heads and not set(line) <= set("|-: "):
            allocator = re.match(r"`([^`]+)`", cells[0]).group(1)
            for head, cell in zip(heads[1:], cells[1:]):
                # Two columns of one kind are distinguished by the first one's name.
                named = head if not re.match(r"n = \d+$", head) else "adversary, " + head
                figure = committed.figure(allocator, named)
                if figure is None:
                    sys.exit(f"docs/book/src/{chapter}:{number}: no data to compare the column `{head}` with")
                if figure != cell:
                    sys.exit(f"docs/book/src/{chapter}:{number}: {allocator}, {head}: the book has {cell}, the files {figure}")
                held += 1
    if expect:
        sys.exit(f"docs/book/src/{chapter}: a table is missing at the end")
    return held


def main():
    source, scratch, *only = sys.argv[1:]
    root, scratch = pathlib.Path(source), pathlib.Path(scratch)
    chapters = sorted(path for path in root.rglob("*.md") if path.name != "SUMMARY.md")
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", (root / "SUMMARY.md").read_text(encoding="utf-8")))
    if missing := [name for path in chapters if (name := str(path.relative_to(root))) not in listed]:
        sys.exit(f"docs/book/src/SUMMARY.md does not list {', '.join(missing)}")
    os.environ["COLUMNS"] = "90"
    committed = Committed(root.parents[2])
    totals = [0, 0, 0]
    for path in chapters:
        name = str(path.relative_to(root))
        if only and name not in only:
            continue
        folder = scratch / name.replace("/", "-").removesuffix(".md")
        folder.mkdir(parents=True)
        performed, compared = perform_chapter(blocks_of(root, path), folder)
        held = check_tables(name, path, committed)
        print(f"{name}: {performed} shell blocks performed, {compared} outputs as in the book"
              + (f", {held} figures as in committed files" if held else ""), flush=True)
        totals = [sum(pair) for pair in zip(totals, (performed, compared, held))]
    if not only and 0 in totals:
        sys.exit("no block was performed, no output compared, or no figure found: the book does not have the expected structure")


if __name__ == "__main__":
    main()
