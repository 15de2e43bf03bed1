"""Figures as Markdown tables, for a terminal and for benchmarks/README.md."""

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.latency import WHOLE

README = Path(__file__).with_name("README.md")
SCALE = README.parent.parent / "docs" / "scale.md"

type Row = dict[str, Any]

STEPS = (
    "plan",
    "slice_listing",
    "mark_uncommitted",
    "list_committed",
    "subtract",
    "check_limits",
    "bulk_delete",
    "verify",
    "save_report",
)
TASKS = ("acquire_lease", *STEPS, "release_lease")
"""Steps, with the additional tasks of the DAG."""
COLUMNS: tuple[tuple[str, Callable[[Row], object]], ...] = (
    ("shape", lambda row: row["shape"]),
    ("revision", lambda row: row.get("revision", "")),
    ("engine", lambda row: row["engine"] + (" in Airflow" if row.get("airflow") else "")),
    ("index", lambda row: f"{row.get('mode', '')} {row['index']}".strip()),
    ("kv", lambda row: "yes" if row["kv"] else "no"),
    ("wall s", lambda row: row["wall"]),
    ("steps s", lambda row: row.get("steps", round(sum(row["seconds"].values()), 1))),
    ("steps / bare", lambda row: row.get("steps_to_bare", 1)),
    ("wall / bare", lambda row: _in_turns(row)),
    ("to first task s", lambda row: row.get("to_first_task", "")),
    ("after last task s", lambda row: row.get("after_last_task", "")),
    ("CPU s", lambda row: _each(row["cpu_seconds"])),
    ("PSS MiB", lambda row: row["peak_of_all_mib"]),
    ("requests", lambda row: sum(own(row).values()) or ""),
    ("deleted", lambda row: row["deleted"]),
    ("missed", lambda row: row.get("missed", 0)),
    ("lost", lambda row: row.get("lost", 0)),
)


def _in_turns(row: Row) -> object:
    """The middle ratio, with the least and the largest one of several."""
    found = row.get("ratios", ())
    middle = row.get("wall_to_bare", "")
    return f"{middle} ({found[0]} to {found[-1]})" if len(found) > 1 else middle


def line(row: Row) -> str:
    """Return a run in one line, for progress."""
    return ", ".join(f"{name} {value(row)}" for name, value in COLUMNS if value(row) != "")


def whole(rows: Sequence[Row]) -> str:
    """Return all tables of some runs, with the environment. Of several revisions, only the first table has all."""
    parts = [
        surroundings(),
        table([name for name, _ in COLUMNS], [[get(row) for _, get in COLUMNS] for row in rows]),
    ]
    rows = [row for row in rows if row.get("revision") == rows[-1].get("revision")]
    ours, bare = (
        [row for row in rows if row["engine"] != "bare"],
        [row for row in rows if row["engine"] == "bare"],
    )
    parts += (
        ["Seconds by step:", _by_step(ours, lambda row, step: row["seconds"].get(step, ""))] if ours else []
    )
    parts += ["Seconds of the bare client:", _by_part(bare)] if bare else []
    if any(own(row) for row in ours):
        parts += ["Requests to the store by step:", _by_step(ours, _asked)]
        parts += ["Requests by kind, the lakeFS server's own apart:", _by_kind(rows)]
    if any(row.get("chains") for row in ours):
        parts += ["Requests, and the longest chain of them, by step:", _by_chain(ours)]
    for row in ours:
        if row.get("mode") == "optimized" and row.get("places"):
            parts += [f"What the requests of {_name(row)} were for:", _by_place(row)]
    if any(row.get("processes_mib") for row in ours):
        parts += ["PSS at the peak by process, MiB:", _by_process(ours, "processes_mib")]
        parts += ["CPU seconds by process:", _by_process(ours, "processes_cpu")]
    return "\n\n".join(parts)


def by_latency(rows: Sequence[Row]) -> str:
    """Return the tables of delayed runs: seconds, requests and longest chains, by revision."""
    ours = [row for row in rows if row.get("chains") and row["engine"] != "bare"]
    ours.sort(key=lambda row: row["latency_ms"])
    names = [
        "run",
        "revision",
        "ms a request",
        "steps s",
        "wall s",
        "deleted",
        "missed",
        "lost",
        *TASKS,
        WHOLE,
    ]
    cells = []
    for row in ours:
        counts = [row["chains"].get(step) for step in (*TASKS, WHOLE)]
        figures = [row.get(name, "") for name in ("steps", "wall", "deleted", "missed", "lost")]
        chains = [f"{count['requests']}; {count['chain']}" if count else "" for count in counts]
        cells.append([_name(row), row.get("revision", "before"), f"{row['latency_ms']:g}", *figures, *chains])
    about = "Of each step: requests; the longest chain among them."
    return "\n\n".join([surroundings(), about, table(names, cells)])


def revision() -> str:
    """Return the revision of this tree."""
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(
        command, cwd=README.parent, capture_output=True, text=True, check=False
    ).stdout.strip()


def surroundings() -> str:
    """Return machine, revision and load of the machine, which affects all seconds."""
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, revision {revision()}, {os.cpu_count()} cores, Python"
        f" {platform.python_version()}, load of the machine at the end {load:.1f}."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(str(cell) for cell in cells)} |" for cells in lines)


def own(row: Row) -> Counter[str]:
    """Return a run's requests by kind, without the lakeFS server's."""
    return Counter({kind: count for kind, count in _all(row).items() if not kind.startswith("lakefs ")})


def write(name: str, text: str, page: Path = README) -> None:
    """Put a text between the marks of a name in a page.

    Raises:
        ValueError: the page has no such marks.
    """
    begin, end = f"<!-- {name} begin -->", f"<!-- {name} end -->"
    before, found, rest = page.read_text().partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise ValueError(f"{page} lacks {begin} or {end}")
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")


def _all(row: Row) -> Counter[str]:
    if "all_requests" in row:
        return Counter(row["all_requests"])
    total: Counter[str] = Counter()
    for counts in row["requests"].values():
        total.update(counts)
    return total


def _name(row: Row) -> str:
    kv = "" if row["engine"] == "bare" else " kv" if row["kv"] else " no kv"
    return (
        f"{row['shape']} {row['engine']} {row.get('mode', '')} {row['index']}".replace("  ", " ").strip() + kv
    )


def _by_step(rows: Sequence[Row], cell: Callable[[Row, str], object]) -> str:
    return table(["run", *TASKS], [[_name(row), *(cell(row, step) for step in TASKS)] for row in rows])


def _by_chain(rows: Sequence[Row]) -> str:
    steps = (*TASKS, WHOLE)
    found = []
    for row in (row for row in rows if row.get("chains")):
        counts = [row["chains"].get(step) for step in steps]
        cells = [f"{count['requests']}; {count['chain']}" if count else "" for count in counts]
        found.append([f"{_name(row)} {row['latency_ms']:g} ms", *cells])
    return table(["run", *steps], found)


def _by_part(rows: Sequence[Row]) -> str:
    names = list(rows[0]["seconds"])
    return table(["run", *names], [[_name(row), *row["seconds"].values()] for row in rows])


def _asked(row: Row, step: str) -> str:
    counts = row["requests"].get(step, {})
    return ", ".join(
        f"{count} {kind}" for kind, count in sorted(counts.items()) if not kind.startswith("lakefs ")
    )


def _by_kind(rows: Sequence[Row]) -> str:
    kinds = sorted({kind for row in rows for kind in own(row)})
    cells = []
    for row in rows:
        counts = _all(row)
        server = sum(count for kind, count in counts.items() if kind.startswith("lakefs "))
        cells.append([_name(row), *(counts.get(kind, 0) for kind in kinds), server])
    return table(["run", *kinds, "lakeFS's own"], cells)


def _by_place(row: Row) -> str:
    places, steps = row["places"], [step for step in TASKS if step in row["places"]]
    totals: Counter[str] = Counter()
    for step in steps:
        for place, kinds in places[step].items():
            totals[place] += sum(kinds.values())
    cells = [
        [place, total, *(_each_count(places[step].get(place, {})) for step in steps)]
        for place, total in totals.most_common()
    ]
    return table(["", "all", *steps], cells)


def _each_count(kinds: dict[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _by_process(rows: Sequence[Row], figure: str) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row.get(figure, {})))
    cells = [[_name(row), *(row.get(figure, {}).get(name, "") for name in names)] for row in rows]
    return table(["run", *names], cells)


def _each(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
