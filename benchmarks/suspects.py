"""Cost of suspects: candidates with the size of an object in a branch head, which the branch may read.

By number of object sizes (few: every candidate is a suspect; many: hardly any), and with or without the
staging records. Entity tags are not used, so an encrypted bucket costs the same.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from benchmarks.collect import measure, open_lake, surroundings
from benchmarks.tables import own, table
from benchmarks.tables import surroundings as measured_on

SHAPES = ("b10k", "b10k-lengths")

type Row = dict[str, Any]


def run(store: str) -> Iterator[Row]:
    """Collect each shape without and with the staging records, with a warm index, and yield a row each.

    Args:
        store: one of STORES.
    """
    with surroundings(store, ["floor"]) as beside:
        for shape, with_kv in product(SHAPES, (False, True)):
            lake = open_lake(shape, beside.store)
            if not with_kv:
                measure(lake, "floor", beside, warm=True, with_kv=True, in_airflow=False)  # fills the index
            yield measure(lake, "floor", beside, warm=True, with_kv=with_kv, in_airflow=False)


def whole(rows: Sequence[Row]) -> str:
    """Return a table of suspects, their outcomes, and the cost of the checks."""
    head = ("shape", "kv", "suspects", "cleared", "held", "questions to lakeFS")
    head += ("requests of check_limits", "seconds of check_limits", "deleted")
    cells = []
    for row in rows:
        counts = row["check_limits"]
        step = {"requests": {"check_limits": row["requests"].get("check_limits", {})}}
        cells.append(
            (
                row["shape"],
                "yes" if row["kv"] else "no",
                counts["same_size_objects"],
                counts["cleared_objects"],
                counts["held_objects"],
                counts["questions"],
                sum(own(step).values()),
                row["seconds"]["check_limits"],
                row["deleted"],
            )
        )
    return f"{measured_on()}\n\n{table(head, cells)}"
