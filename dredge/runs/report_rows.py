"""The rows of a report's table, and its columns: one list, which the page and the terminal both draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dredge.runs.words import size_text


@dataclass(frozen=True, slots=True)
class ReportRow:
    """Objects of one kind that met one fate.

    Attributes:
        kind: what the objects are, such as "unreferenced".
        verdict: what became of them, such as "deleted" or "kept".
        why: the reason, as half a sentence.
        objects: how many.
        size_bytes: their length together; None when nobody counted.
    """

    kind: str
    verdict: str
    why: str
    objects: int
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Attributes:
        title: its heading.
        text: words a row's value, from the row as `ReportRow.to_json` gave it.
        is_number: whether it is aligned to the right.
    """

    title: str
    text: Callable[[Mapping[str, Any]], str]
    is_number: bool = False


COLUMNS = (
    Column("Kind", lambda row: str(row["kind"])),
    Column("Verdict", lambda row: str(row["verdict"])),
    Column("Objects", lambda row: f"{row['objects']:,}", is_number=True),
    Column("Size", lambda row: size_text(row["size_bytes"]), is_number=True),
    Column("Why", lambda row: str(row["why"])),
)
"""From left to right. A new column is a field of `ReportRow` and an entry here."""


def table_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw the table as text, a line for each row, below a line of headings.

    Args:
        rows: as `ReportRow.to_json` gave them.
    """
    table = [[column.title.upper() for column in COLUMNS]]
    table += [[column.text(row) for column in COLUMNS] for row in rows]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)]
    for cells in table:
        aligned = [
            text.rjust(width) if column.is_number else text.ljust(width)
            for column, text, width in zip(COLUMNS, cells, widths, strict=True)
        ]
        yield "  ".join(aligned).rstrip()
