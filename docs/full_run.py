"""Extracts what the repository keeps of a full run of the papers' experiments.

`python3 docs/full_run.py STORE... REPORT...` writes docs/full-run.json: all tables of the reports (files that end in
.html), and from the stores with which commit, on which machine and for how long each paper was measured."""

import datetime
import json
import pathlib
import re
import sqlite3
import sys

sys.dont_write_bytecode = True

from reproduction import Tables


def performed(path):
    """One entry for each process and experiment of a store: machine, start, duration."""
    if pathlib.Path(path).read_bytes()[:16] != b"SQLite format 3\0":
        sys.exit(f"{path} is not a store")
    store = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    rows = store.execute(
        """SELECT experiment, rtalloc, cpu, cores, kernel, rustc, COUNT(*), SUM(timed), SUM(seconds),
                  MIN(finished_unix - seconds), MAX(finished_unix)
           FROM cell JOIN environment ON environment.id = cell.environment GROUP BY experiment, environment.id"""
    )
    for experiment, rtalloc, cpu, cores, kernel, rustc, tasks, timed, seconds, begun, ended in rows:
        yield {
            "experiment": experiment,
            "commit": re.search(r"commit (\w+)", rtalloc).group(1),
            "machine": f"{cpu}, {cores} {'core' if cores == 1 else 'cores'}, {kernel}, {rustc.split(' (')[0]}",
            "begun": f"{datetime.datetime.fromtimestamp(begun, datetime.timezone.utc):%Y-%m-%d %H:%M} UTC",
            "tasks": tasks,
            "timed_tasks": timed,
            "minutes": round((ended - begun) / 60, 1),
            "minutes_of_all_tasks": round(seconds / 60, 1),
        }


def written(value, depth):
    """JSON with a line for each run and each row of a table, so that a change is readable."""
    inner = value.values() if isinstance(value, dict) else value
    if not isinstance(value, (dict, list)) or not any(isinstance(one, (dict, list)) for one in inner):
        return json.dumps(value, ensure_ascii=False)
    names = (f"{json.dumps(name, ensure_ascii=False)}: " if isinstance(value, dict) else "" for name in value)
    lines = (f"{' ' * (depth + 1)}{name}{written(one, depth + 1)}" for name, one in zip(names, inner))
    first, last = "{}" if isinstance(value, dict) else "[]"
    return first + "\n" + ",\n".join(lines) + f"\n{' ' * depth}{last}"


def main():
    reports = [name for name in sys.argv[1:] if name.endswith(".html")]
    runs = [run for name in sys.argv[1:] if name not in reports for run in performed(name)]
    found = [Tables(pathlib.Path(name).read_text(encoding="utf-8")) for name in reports]
    if not runs or not all(report.found for report in found) or not found:
        sys.exit("name at least one store and one report of `rtalloc reproduce`, each with results")
    kept = {"runs": runs, "tables": {report.title: report.found for report in found}}
    if len(kept["tables"]) < len(found):
        sys.exit("two reports have the same title")
    (pathlib.Path(__file__).parent / "full-run.json").write_text(written(kept, 0) + "\n", encoding="utf-8")


main()
