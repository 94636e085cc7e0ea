#!/bin/sh
# Opens a report in headless Chromium. Fails on an error on the console, a network request, or a figure that is not
# drawn.
#
# Usage: ci/report.sh [REPORT [SCRIPT]] (default: report.html). SCRIPT runs on the drawn page and adds to `troubles`.
# Needs: Chromium (`apt-get install chromium`; installed if run as root), python3. Takes: about 5 seconds.
set -eu

report=${1:-report.html}
script=${2:-}
if [ ! -s "$report" ]; then
    echo "ci/report.sh: $report does not exist or is empty; run 'cargo run --release' first, or name a report" >&2
    exit 1
fi

find_browser() {
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" && return 0
    done
    return 1
}
if ! browser=$(find_browser); then
    "$(dirname "$0")/install.sh" chromium
    browser=$(find_browser)
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Adds a last script to the report that inspects the drawn page and writes its findings into it. The page's own
# security policy stays in force: any load is a violation, which the listener in the head counts.
python3 - "$report" "$work/page.html" "$script" <<'PYTHON'
import sys

page = open(sys.argv[1], encoding="utf-8").read()
more = open(sys.argv[3], encoding="utf-8").read() if sys.argv[3] else ""
watch = """<script>
window.troubles = [];
addEventListener("error", (event) => troubles.push("error: " + (event.message || event.target.outerHTML)), true);
addEventListener("unhandledrejection", (event) => troubles.push("rejection: " + event.reason));
addEventListener("securitypolicyviolation", (event) => troubles.push("violation: " + event.blockedURI));
</script>"""
judge = """<script>
addEventListener("load", () => {
  const figures = [...document.querySelectorAll("svg")];
  const empty = figures.filter((figure) => {
    const box = figure.getBBox();
    const shapes = figure.querySelectorAll("polyline, polygon, line, circle, rect").length;
    return !(box.width > 100 && box.height > 50 && shapes > 5);
  });
  for (const figure of empty) troubles.push("not drawn: " + figure.getAttribute("aria-label"));
  for (const figure of figures) {
    const sheet = figure.viewBox.baseVal;
    for (const text of figure.querySelectorAll("text")) {
      const box = text.getBBox();
      if (box.x < -1 || box.y < -1 || box.x + box.width > sheet.width + 1 || box.y + box.height > sheet.height + 1) {
        troubles.push("text beyond the sheet: " + text.textContent + " in " + figure.getAttribute("aria-label"));
      }
    }
  }
  for (const entry of performance.getEntriesByType("resource")) troubles.push("request: " + entry.name);
  if (document.documentElement.scrollWidth > innerWidth + 1) troubles.push("the page is wider than the window");
  for (const heading of document.querySelectorAll("thead tr:last-child th")) heading.click();
  try { more(); } catch (error) { troubles.push("the script: " + error + error.stack); }
  const verdict = document.querySelector(".verdict h2");
  const findings = document.createElement("div");
  findings.id = "findings";
  findings.textContent = JSON.stringify({ figures: figures.length, verdict: verdict && verdict.textContent, troubles });
  document.body.append(findings);
});
</script>"""
assert page.count("<head>") == 1 and page.count("</body>") == 1, "this is no report"
more = "<script>function more() {" + more + "}</script>"
page = page.replace("<head>", "<head>" + watch).replace("</body>", more + judge + "</body>")
open(sys.argv[2], "w", encoding="utf-8").write(page)
PYTHON

for width in 1300 500; do
    "$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
        --disable-component-update --disable-sync --user-data-dir="$work/profile" --window-size="$width,1000" \
        --enable-logging=stderr --dump-dom "file://$work/page.html" >"$work/dom.html" 2>"$work/log"
    python3 - "$report" "$work/dom.html" "$work/log" "$width" <<'PYTHON'
import html, json, re, sys

report, dom, log, width = sys.argv[1:]
found = re.search(r'<div id="findings">(.*?)</div>', open(dom, encoding="utf-8").read(), re.S)
if not found:
    sys.exit("ci/report.sh: the page did not run to its end")
findings = json.loads(html.unescape(found.group(1)))
troubles = findings["troubles"]
troubles += re.findall(r"CONSOLE.*", open(log, encoding="utf-8", errors="replace").read())
traces = len(set(re.findall(r'id="(trace-\d+)"', open(report, encoding="utf-8").read())))
# The verdict's figure, if there is a verdict, and at least one figure per trace.
if findings["figures"] < max(1, traces):
    troubles.append(f"{findings['figures']} figures for {traces} traces")
if not findings["verdict"]:
    troubles.append("no verdict")
for trouble in troubles:
    print(f"ci/report.sh: {trouble}", file=sys.stderr)
if troubles:
    sys.exit(1)
print(f"{report}: {findings['figures']} figures drawn at {width} pixels, nothing loaded; {findings['verdict']}")
PYTHON
done
