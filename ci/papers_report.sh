#!/usr/bin/env bash
# Opens the report of all papers in headless Chromium and uses it: no error on the console, no network request, every
# figure drawn, clicks sort a table and filter the verdicts, and pointing at a name or a curve shows its values.
#
# Usage: ci/papers_report.sh REPORT; docs/reproduction.sh runs it on what it makes
# Needs: Chromium and python3, as ci/report.sh, which it runs. Takes: about 15 seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

report=${1:?name a report of rtalloc reproduce all}
ci/report.sh "$report" "$PWD/ci/papers_report.js"

# No trace of the machine that made it outside its section on the environment.
if grep -nE '/(home|root|tmp)/|file://' "$report" | cut -c1-200 | grep .; then
    echo "$report: has paths of the machine that made it" >&2
    exit 1
fi
bytes=$(wc -c <"$report")
[ "$bytes" -le 4194304 ] || { echo "$report: $bytes bytes; the limit is 4 MiB" >&2; exit 1; }
echo "$report: $bytes bytes, all interactions work"
