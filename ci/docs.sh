#!/usr/bin/env bash
# The documentation builds without a warning, private items included. In the documents, every section with a table of
# figures states when, at which commit and by which command they were measured. The table of tiers agrees with bounds/.
# Needs: nothing beyond cargo and python3. Takes: under a minute.
set -euo pipefail
cd "$(dirname "$0")/.."

# A table of figures has a row with at least three cells that begin with a digit. Tables of file formats are not
# measurements.
mapfile -t documents < <(git ls-files '*.md' ':!CHANGELOG.md' ':!docs/FLIGHT-RECORDER.md' ':!docs/TRACE-FORMAT.md')
awk '
    function close_section() {
        if (figures && !measured) { print file ":" figures ": add a line such as: Measured 2026-01-31 at 0123abc by `COMMAND`."; missing = 1 }
        figures = measured = 0
    }
    FNR == 1 || /^## / { close_section(); file = FILENAME }
    /Measured 20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]/ { measured = 1 }
    /^\|/ && !figures {
        count = 0
        for (cell = split($0, cells, "|"); cell > 0; cell--) count += cells[cell] ~ /^ *[0-9]/
        if (count >= 3) figures = FNR
    }
    END { close_section(); exit missing }
' "${documents[@]}"
python3 ci/tiers.py
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
