#!/usr/bin/env bash
# Opens the report of all papers in headless Chromium and uses it: no error on the console, nothing asked of the network, every figure
# drawn, a click sorts a table, a click filters the verdicts, pointing at a name and at a curve shows what it should. Then prints it.
#
# Takes: the report (default: docs/reproduction.html).
# Needs: Chromium and python3, as ci/report.sh, which looks at the drawing. About 15 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

report=${1:-docs/reproduction.html}
ci/report.sh "$report" "$PWD/ci/papers_report.js"

# Nothing of the machine it was made on but what its section of the environment says.
if grep -nE '/(home|root|tmp)/|file://' "$report" | cut -c1-200 | grep .; then
    echo "$report: has paths of the machine it was made on" >&2
    exit 1
fi
bytes=$(wc -c <"$report")
[ "$bytes" -le 4194304 ] || { echo "$report: $bytes bytes; 4 MiB are enough" >&2; exit 1; }
echo "$report: $bytes bytes, used and found whole"
