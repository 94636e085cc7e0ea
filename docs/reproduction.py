"""Keeps of a report of `rtalloc reproduce all` what the repository holds: `python3 docs/reproduction.py REPORT` writes
docs/overview.svg, the report's first figure, and docs/reproduction.json, the tables that the book is compared with."""

import html.parser
import json
import pathlib
import re
import sys

TABLES = [
    "All allocators",
    "Smallest heap / live memory M of each trace",
    "The worst of all adversaries: memory needed over M: Guaranteed heap sizes / M",
    "The worst of all adversaries: memory needed over M",
]


class Tables(html.parser.HTMLParser):
    """The tables of a report, without that of the claims: rows of cells by heading."""

    def __init__(self, text):
        super().__init__()
        self.found, self.is_claims, self.text, self.row, self.title = {}, False, None, None, ""
        self.heading, self.line = "", ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "br" and self.text is not None:
            self.text += "" if self.text.endswith("-") else " "
        if tag in ("h1", "h2", "h3", "th", "td") or (tag, ("class", "line")) == ("p", *attributes[:1]):
            self.text = ""
        elif tag == "tr":
            self.row = []
        elif tag == "table":
            self.is_claims = ("class", "claims") in attributes

    def handle_endtag(self, tag):
        if tag == "h1":
            self.title = self.text
        elif tag in ("h2", "h3") and self.text is not None:
            self.heading, self.line = self.text, ""
        elif tag == "p" and self.text is not None:
            self.line = f": {self.text}"
        elif tag in ("th", "td") and self.row is not None:
            self.row.append(self.text)
        elif tag == "tr" and self.row and not self.is_claims:
            self.found.setdefault(self.heading + self.line, []).append(self.row)
        elif tag == "table":
            self.line = ""
        if tag in ("h1", "h2", "h3", "p", "th", "td"):
            self.text = None

    def handle_data(self, data):
        if self.text is not None:
            self.text += data


def overview(report):
    """The report's first figure as an SVG file."""
    style = re.search(r"<style>(.*?)</style>", report, re.S).group(1)
    figure = re.search(r"<svg .*?</svg>", report, re.S).group()
    figure = re.sub(r'<g class="v\d+".*?</g>', "", figure)     # what the report's script shows under the pointer

    # A class such as s7 or ink-grid-f: stroke (s) or fill (f) in a colour that the report's style sheet names. The file
    # has the colours themselves: not every program that draws SVG knows variables.
    rules = [(".plot", "background", "page"), ("text", "stroke", "page")]
    for name in sorted(set(re.findall(r'class="([sf]\d+|ink-[^"]+)"', figure))):
        stroke, colour = (name[0], f"a{name[1:]}") if name[1:].isdigit() else (name[-1], name.split("-")[1])
        rules.append((f".{name}", "stroke" if stroke == "s" else "fill", {"text": "ink"}.get(colour, colour)))

    def theme(number):
        """The rules of the light theme (0), which the style sheet names first, or of the dark one (1)."""
        colours = {name: re.findall(rf"--{name}:\s*([^;}}]+)", style)[number] for _, _, name in rules}
        return "".join(f"{selector}{{{what}:{colours[name]}}}" for selector, what, name in rules)

    css = f"{theme(0)}@media(prefers-color-scheme:dark){{{theme(1)}}}"
    css += ".plot{font-family:system-ui,sans-serif}"
    css += "text{paint-order:stroke;stroke-width:3px}polyline{fill:none;stroke-dasharray:2 4}"
    return figure.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f"><style>{css}</style>", 1) + "\n"


def main():
    folder = pathlib.Path(__file__).parent
    report = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
    measured = re.search(r"Measured 20\d\d-\d\d-\d\d[^<]*", report)
    if not measured:
        sys.exit(f"{sys.argv[1]} does not state when it was measured")
    tables = Tables(report).found
    # One row per line, so that a change is readable.
    rows = ",\n".join(
        f"    {json.dumps(heading)}: {{\n"
        + ",\n".join(f"      {json.dumps(name)}: {json.dumps(cells)}" for name, *cells in tables[heading])
        + "\n    }"
        for heading in TABLES
    )
    kept = f'{{\n  "measured": {json.dumps(measured.group())},\n  "tables": {{\n{rows}\n  }}\n}}\n'
    (folder / "reproduction.json").write_text(kept, encoding="utf-8")
    (folder / "overview.svg").write_text(overview(report), encoding="utf-8")


if __name__ == "__main__":
    main()
