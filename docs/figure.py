"""Prints the first figure of docs/reproduction.html as an SVG file: python3 docs/figure.py > docs/overview.svg"""

import pathlib
import re

report = pathlib.Path(__file__).with_name("reproduction.html").read_text(encoding="utf-8")
style = re.search(r"<style>(.*?)</style>", report, re.S).group(1)
figure = re.search(r"<svg .*?</svg>", report, re.S).group()
figure = re.sub(r'<g class="v\d+".*?</g>', "", figure)     # what the report's script shows under the pointer

# A class such as s7 or ink-grid-f: stroke (s) or fill (f) in a colour that the report's style sheet names.
rules, names = [], {"page"}
for name in sorted(set(re.findall(r'class="([sf]\d+|ink-[^"]+)"', figure))):
    stroke, colour = (name[0], f"a{name[1:]}") if name[1:].isdigit() else (name[-1], name.split("-")[1])
    colour = {"text": "ink"}.get(colour, colour)
    rules.append(f".{name}{{{'stroke' if stroke == 's' else 'fill'}:var(--{colour})}}")
    names.add(colour)


def theme(number):
    """The colours of the light theme (0), which the style sheet names first, or of the dark one (1)."""
    values = {name: re.findall(rf"--{name}:\s*([^;}}]+)", style) for name in sorted(names)}
    return ":root{" + ";".join(f"--{name}:{found[number]}" for name, found in values.items()) + "}"


css = f"{theme(0)}@media(prefers-color-scheme:dark){{{theme(1)}}}{''.join(rules)}"
css += ".plot{background:var(--page);font-family:system-ui,sans-serif}"
css += "text{paint-order:stroke;stroke:var(--page);stroke-width:3px}polyline{fill:none;stroke-dasharray:2 4}"
print(figure.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f"><style>{css}</style>", 1))
