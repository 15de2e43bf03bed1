"""Figures of the pending list, additive over shards, and their text in reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up
from dredge.runs.pending.rows import WAITING, Mask, PartFacts, Turn
from dredge.runs.rendering import size_text

# Beside the statuses of rows: rows that wait since this run.
FOUND_NOW = "found_now"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """Counts of rows of the list, and of candidates; a payload.

    Attributes:
        by_status: rows by status, and `FOUND_NOW`.
        first_since: start of the first open wait; None if absent.
        last_since: start of the last open wait.
        waiting: waiting candidates, by reason.
        sizes: of the examples of these, by address.
        confirmed: candidates after their wait, by reason.
    """

    by_status: dict[str, Figures] = field(default_factory=dict)
    first_since: datetime | None = None
    last_since: datetime | None = None
    waiting: dict[str, Figures] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    confirmed: dict[str, Figures] = field(default_factory=dict)

    def __add__(self, other: Waits) -> Waits:
        first = [item for item in (self.first_since, other.first_since) if item is not None]
        last = [item for item in (self.last_since, other.last_since) if item is not None]
        return Waits(
            by_status=add_up([self.by_status, other.by_status]),
            first_since=min(first, default=None),
            last_since=max(last, default=None),
            waiting=add_up([self.waiting, other.waiting]),
            sizes={**self.sizes, **other.sizes},
            confirmed=add_up([self.confirmed, other.confirmed]),
        )

    @classmethod
    def of_part(cls, facts: PartFacts) -> Waits:
        """Count the rows of a part."""
        return cls(
            by_status=dict(facts.by_status), first_since=facts.first_since, last_since=facts.last_since
        )

    @classmethod
    def of(cls, rows: pa.Table, facts: PartFacts, found: pa.Table, confirmed: Mask, turn: Turn) -> Waits:
        """Count a shard.

        Args:
            facts: about the rows.
            found: by the run, with `code` and `reason`.
            confirmed: mask of candidates after their wait.
        """
        new = rows.filter(
            pc.and_(pc.equal(rows["run_id"], turn.run_id), pc.equal(rows["since"], _us(turn.begins_at)))
        )
        mask = pa.array(confirmed)
        is_confirmed = pc.is_in(rows["address"], found.filter(mask)["address"].combine_chunks())
        rest = cls.of_part(PartFacts.of(rows.filter(pc.invert(is_confirmed))))
        by_status = dict(facts.by_status)
        if new.num_rows:
            by_status[FOUND_NOW] = Figures(objects=new.num_rows, size_bytes=pc.sum(new["size"]).as_py())
        held_off = found.filter(pc.and_(pc.is_null(found["code"]), pc.invert(mask)))
        waiting = _by(held_off, "reason")
        examples = [name for figures in waiting.values() for name in figures.examples]
        own = held_off.filter(pc.is_in(held_off["address"], pa.array(examples, pa.string())))
        return replace(
            rest,
            by_status=by_status,
            waiting=waiting,
            sizes=dict(zip(own["address"].to_pylist(), own["size"].to_pylist(), strict=True)),
            confirmed=_by(found.filter(mask), "reason"),
        )

    @property
    def examples(self) -> list[dict[str, Any]]:
        """Some waiting candidates: `address`, `size`."""
        names = [name for figures in self.waiting.values() for name in figures.examples]
        return [{"address": name, "size": self.sizes[name]} for name in names[:EXAMPLES_MAX]]

    def to_details(self, grace: timedelta) -> dict[str, Any]:
        """Return the JSON for summaries and reports.

        Returns:
            `by_status` (objects and bytes), `found_now`, `waiting`, `confirmed` (each `objects`, `bytes`),
            `first_deletion` and `last_deletion` (ISO 8601; None without waiting objects), `grace_seconds`.
        """
        counted = {name: {"objects": f.objects, "bytes": f.size_bytes} for name, f in self.by_status.items()}
        confirmed = sum(self.confirmed.values(), Figures())
        nothing = {"objects": 0, "bytes": 0}
        new = counted.pop(FOUND_NOW, nothing)
        dates = [
            None if at is None else (at + grace).isoformat() for at in (self.first_since, self.last_since)
        ]
        waiting = counted.get(WAITING, nothing)
        return {
            "by_status": counted,
            "found_now": new,
            "confirmed": {"objects": confirmed.objects, "bytes": confirmed.size_bytes},
            "waiting": {
                "objects": waiting["objects"] - confirmed.objects,
                "bytes": waiting["bytes"] - confirmed.size_bytes,
            },
            "first_deletion": dates[0],
            "last_deletion": dates[1],
            "grace_seconds": grace.total_seconds(),
        }


def _by(rows: pa.Table, column: str) -> dict[str, Figures]:
    found = _sums(rows, column)
    for value, figures in found.items():
        own = rows.filter(pc.equal(rows[column], value))
        found[value] = replace(figures, examples=tuple(own["address"].slice(0, EXAMPLES_MAX).to_pylist()))
    return found


def _sums(rows: pa.Table, column: str) -> dict[str, Figures]:
    sums: Mapping[str, list[Any]] = (
        rows.group_by(column).aggregate([("size", "count"), ("size", "sum")]).to_pydict()
    )
    columns = (sums[column], sums["size_count"], sums["size_sum"])
    return {
        value: Figures(objects=count, size_bytes=total) for value, count, total in zip(*columns, strict=True)
    }


def _us(at: datetime) -> pa.Scalar:
    return pa.scalar(at, pa.timestamp("us", tz="UTC"))


def describe_waiting(pending: Mapping[str, Any]) -> str:
    """Return a sentence about waiting objects, and when the first may be deleted; "" without any."""
    if not pending or not pending["waiting"]["objects"]:
        return ""
    found, waiting, dates = pending["found_now"], pending["waiting"], _dates(pending)
    new = f"{found['objects']:,} of them since this run"
    text = f"{waiting['objects']:,} objects ({waiting['bytes']:,} bytes) wait, {new}"
    return f"{text}; the first run that can delete some is one after {dates[0]}." if dates else f"{text}."


def list_waiting_facts(pending: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and texts about the pending list, from `Waits.to_details`."""
    if not pending:
        return

    def words(found: Mapping[str, int]) -> str:
        return f"{found['objects']:,} objects ({size_text(found['bytes'])})"

    yield "Found now", words(pending["found_now"])
    dates = _dates(pending)
    when = f"; a run may delete the first from {dates[0]} on, the last from {dates[-1]} on" if dates else ""
    yield "Waiting", f"{words(pending['waiting'])}{when}"
    yield "Confirmed", f"{words(pending['confirmed'])} that an earlier run found, and that have waited"


def _dates(pending: Mapping[str, Any]) -> list[str]:
    texts = [pending["first_deletion"], pending["last_deletion"]]
    return [f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M} UTC" for text in texts if text is not None]
