"""Rows of the pending list, how a mark advances them, and the list's figures.

    found now      the row before                            the row after                       may be deleted
    free           waits, unchanged, old at start of wait    keeps `since`                       after the grace, if
    another
                                                                                                 run started the wait
    free           other, or none                            waits from now on                   no
    young          waits, unchanged                          unchanged                           no
    young          other, or none                            young                               no
    held           any                                       code of the hold                    no
    no, but live   any                                       live, until the state of runs knows it as live
    no             deleted by the run of the state           removed                             no
    no             was searched for                          removed                             no
    no             other                                     unchanged                           no

Pure: tables in, tables out.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from dredge.runs.limits import EXAMPLES_MAX, Figures, add_up

WAITING, YOUNG, LIVE = "waiting", "young", "live"
_TIME = pa.timestamp("us", tz="UTC")
_OBJECT = [
    pa.field("address", pa.string(), nullable=False),
    pa.field("hash", pa.uint64(), nullable=False),
    pa.field("size", pa.int64(), nullable=False),
    pa.field("etag", pa.string()),
    pa.field("version_id", pa.string()),
    pa.field("last_modified", _TIME),
]
# Objects that a mark found. `last_modified` is null if the store was not asked. `code` is that of a hold, or
# `YOUNG`; null without a hold. `reason` is why it is garbage.
FOUND = pa.schema([*_OBJECT, pa.field("code", pa.string()), pa.field("reason", pa.string())])
# Rows of the list. `status` is `WAITING`, `YOUNG`, `LIVE`, or the code of a hold. `since`, `run_id` and
# `min_age` (microseconds) are of the run that started the wait; `run_id` of a live row is the run that saw it
# live.
PENDING = pa.schema(
    [
        *_OBJECT,
        pa.field("status", pa.string(), nullable=False),
        pa.field("since", _TIME),
        pa.field("run_id", pa.string()),
        pa.field("min_age", pa.int64()),
    ]
)

type Mask = npt.NDArray[np.bool_]


class Turn(Struct, frozen=True, kw_only=True):
    """A run, as it advances the list; a payload."""

    run_id: str
    marked_at: datetime  # when it was planned, before it read any input
    now: datetime  # when its mark had read its last input; waits start then, but not before `marked_at`
    cutoff: datetime  # objects modified later are young
    min_age: timedelta  # younger objects are young; a wait that started at a lower age does not count
    grace: timedelta
    waits: bool  # objects wait for another run; if False, every free object may be deleted
    lists_all: bool  # the run listed everything: an old object that it did not find was deleted
    state_of: str | None  # run of the state that the next run uses if this run fails; None if absent

    @property
    def min_age_us(self) -> int:
        """`min_age` in microseconds."""
        return self.min_age // timedelta(microseconds=1)

    @property
    def begins_at(self) -> datetime:
        """Start of new waits: not before `marked_at`, even if the clock was set back since."""
        return max(self.now, self.marked_at)


class Advanced(Struct, frozen=True):
    """The list after a mark."""

    rows: pa.Table  # the new list (`PENDING`), sorted by address
    confirmed: Mask  # for each found object, whether it may be deleted


def due(rows: pa.Table, marked_at: datetime, grace: timedelta, cutoff: datetime) -> Mask:
    """Return for each row whether a run without a complete listing must look for the object. `cutoff`: objects modified
    later are young."""
    over = _is_at_most(rows["since"], marked_at - grace)
    old = _mask(pc.fill_null(pc.less(rows["last_modified"], _time(cutoff)), False))
    return np.where(_is(rows, WAITING), over, np.where(_is(rows, YOUNG), old, True))


class PartFacts(Struct, frozen=True, kw_only=True):
    """Figures of a part of the list, stored beside its name, so that some runs need not read the part; a payload."""

    by_status: Mapping[str, Figures]  # count and size of its rows
    first_since: datetime | None = None  # start of the first open wait; None if absent
    last_since: datetime | None = None  # start of the last open wait
    oldest_young: datetime | None = None  # earliest `last_modified` of young rows; None if unknown
    oldest: datetime | None = None  # earliest `last_modified`; None if that of a row is unknown

    @classmethod
    def of(cls, rows: pa.Table) -> PartFacts:
        """Count rows of the list."""
        by_status, rest = dict[str, Figures](), rows.select(["status", "size"])
        while rest.num_rows:  # faster than `group_by`: most parts have one status or two
            status = rest["status"][0]
            own = pc.equal(rest["status"], status)
            size_bytes = pc.sum(rest["size"].filter(own)).as_py()
            by_status[status.as_py()] = Figures(objects=pc.sum(own).as_py(), size_bytes=size_bytes)
            rest = rest.filter(pc.invert(own))
        since, modified = pc.min_max(rows["since"]).as_py(), rows["last_modified"]
        return cls(
            by_status=by_status,
            first_since=since["min"],
            last_since=since["max"],
            oldest_young=pc.min(modified.filter(pa.array(_is(rows, YOUNG)))).as_py(),
            oldest=None if modified.null_count else pc.min(modified).as_py(),
        )

    def has_due(self, marked_at: datetime, grace: timedelta, cutoff: datetime) -> bool:
        """Whether a row may be `due`."""
        over = self.first_since is not None and self.first_since <= marked_at - grace
        old = self.oldest_young is not None and self.oldest_young < cutoff
        return over or old or bool(self.by_status.keys() - {WAITING, YOUNG})

    def changes(self, turn: Turn) -> bool:
        """Whether a mark may change a row whose object it neither found nor saw live."""
        if self.last_since is not None and self.last_since > turn.begins_at:
            return True
        if turn.lists_all:
            return self.oldest is None or self.oldest < turn.cutoff
        return self.has_due(turn.marked_at, turn.grace, turn.cutoff)


def advance(previous: pa.Table, found: pa.Table, live: Mask, deleted: Mask, turn: Turn) -> Advanced:
    """Advance the list by the objects of a mark.

    Args:
        previous: the list (`PENDING`), sorted by address.
        found: by the mark (`FOUND`); none is live, and each is there once.
        live: for each row of the list, whether it is live now.
        deleted: for each row of the list, whether the run of the state deleted it.
    """
    previous, live, deleted = _in_time(previous, turn), np.array(live), np.array(deleted)
    if not found.num_rows:
        # So are most shards in most runs; the list is sorted already.
        left = ~(deleted & ~live)
        kept = _unseen_rows(previous.filter(pa.array(left)), live[left], turn)
        return Advanced(kept.combine_chunks(), np.zeros(0, bool))
    rows, confirmed = _found_rows(previous, found, deleted, turn)
    unseen = ~_mask(pc.is_in(previous["address"], found["address"].combine_chunks())) & ~(deleted & ~live)
    kept = _unseen_rows(previous.filter(pa.array(unseen)), live[unseen], turn)
    return Advanced(pa.concat_tables([rows, kept]).sort_by("address").combine_chunks(), confirmed)


def _in_time(previous: pa.Table, turn: Turn) -> pa.Table:
    """Restart waits with a start in the future: the clock was set back."""
    future = ~_is_at_most(previous["since"], turn.begins_at) & _mask(pc.is_valid(previous["since"]))
    if not future.any():
        return previous
    return _with(previous, future, {"since": turn.begins_at, "run_id": turn.run_id})


def _is_gone(rows: pa.Table, turn: Turn) -> Mask:
    """Whether objects that were not found, and are not live, are deleted: they were listed, or searched for."""
    if turn.lists_all:
        return _mask(pc.fill_null(pc.less(rows["last_modified"], _time(turn.cutoff)), True))
    return due(rows, turn.marked_at, turn.grace, turn.cutoff)


def _found_rows(previous: pa.Table, found: pa.Table, deleted: Mask, turn: Turn) -> tuple[pa.Table, Mask]:
    place = pc.index_in(found["address"], previous["address"].combine_chunks())
    before = previous.take(place)  # null for an object without a row
    codes = found["code"]
    free, young = _mask(pc.is_null(codes)), _mask(pc.fill_null(pc.equal(codes, YOUNG), False))
    forgotten = np.zeros(found.num_rows, bool)
    if deleted.any():
        forgotten = _mask(pc.fill_null(pa.array(deleted).take(place), False))
    goes_on = _is(before, WAITING) & _unchanged(before, found) & ~forgotten
    goes_on &= young | _was_old(before, found, turn)
    waits = free | (young & goes_on)
    status = pc.if_else(pa.array(waits), WAITING, codes)
    keeps = pa.array(goes_on & waits)
    begun = pa.array(free & ~goes_on)
    since = pc.if_else(
        keeps, before["since"], pc.if_else(begun, _time(turn.begins_at), pa.scalar(None, _TIME))
    )
    run_id, min_age = [
        pc.if_else(keeps, before[name], pc.if_else(begun, pa.scalar(new, before[name].type), pa.scalar(None)))
        for name, new in (("run_id", turn.run_id), ("min_age", turn.min_age_us))
    ]
    confirmed = free
    if turn.waits:
        by_another = _mask(pc.fill_null(pc.not_equal(before["run_id"], turn.run_id), False))
        over = _is_at_most(before["since"], turn.marked_at - turn.grace)
        confirmed = free & goes_on & by_another & over
    # Unchanged objects keep known values.
    same = pa.array(goes_on)
    columns = [
        pc.if_else(same, pc.coalesce(before[item.name], found[item.name]), found[item.name])
        for item in _OBJECT
    ]
    columns += [status, since, run_id, min_age]
    rows = pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, PENDING, strict=True)], schema=PENDING
    )
    return rows, confirmed


def _unseen_rows(rows: pa.Table, live: Mask, turn: Turn) -> pa.Table:
    was_live = _is(rows, LIVE)
    rows = _with(
        rows, live & ~was_live, {"status": LIVE, "since": None, "run_id": turn.run_id, "min_age": None}
    )
    gone = ~live & _is_gone(rows, turn)
    # Run ids sort newest first: the state is of the run that saw it live, or of a later one.
    if turn.state_of is None:
        known = live
    else:
        known = live & _mask(pc.fill_null(pc.greater_equal(rows["run_id"], turn.state_of), False))
    return rows.filter(pa.array(~gone & ~known))


def _was_old(before: pa.Table, found: pa.Table, turn: Turn) -> Mask:
    """Whether an object had this run's minimum age when its wait started: the run that started the wait required that
    age, or the time of the object shows it."""
    asked = pc.greater_equal(before["min_age"], turn.min_age_us)
    modified = pc.coalesce(before["last_modified"], found["last_modified"])
    shown = pc.less_equal(pc.add(modified, turn.min_age), before["since"])
    return _mask(pc.fill_null(asked, False)) | _mask(pc.fill_null(shown, False))


def _unchanged(before: pa.Table, found: pa.Table) -> Mask:
    """Whether an object is unchanged; missing fields are not compared."""
    same = np.ones(found.num_rows, bool)
    for name in ("size", "etag", "version_id"):
        same &= _mask(pc.fill_null(pc.equal(before[name], found[name]), True))
    # A listing and a request for a single object may give other fractions of a second.
    seconds = (pc.floor_temporal(rows["last_modified"], unit="second") for rows in (before, found))
    return same & _mask(pc.fill_null(pc.equal(*seconds), True))


def _with(rows: pa.Table, which: Mask, values: Mapping[str, object]) -> pa.Table:
    mask = pa.array(which)
    for name, value in values.items():
        place = PENDING.get_field_index(name)
        scalar = _time(value) if isinstance(value, datetime) else pa.scalar(value, PENDING.field(name).type)
        rows = rows.set_column(place, PENDING.field(name), pc.if_else(mask, scalar, rows[name]))
    return rows


def _is(rows: pa.Table, status: str) -> Mask:
    return _mask(pc.fill_null(pc.equal(rows["status"], status), False))


def _is_at_most(times: pa.ChunkedArray, at: datetime) -> Mask:
    return _mask(pc.fill_null(pc.less_equal(times, _time(at)), False))


def _time(at: datetime) -> pa.Scalar:
    return pa.scalar(at, _TIME)


def _mask(found: pa.Array | pa.ChunkedArray) -> Mask:
    return np.asarray(found, bool)


# Counted beside the statuses: rows whose wait this run started.
FOUND_NOW = "found_now"


class Waits(Struct, frozen=True, kw_only=True):
    """Counts of rows of the list, and of candidates; a payload."""

    by_status: dict[str, Figures] = field(default_factory=dict)  # rows by status, and `FOUND_NOW`
    first_since: datetime | None = None  # start of the first open wait; None if absent
    last_since: datetime | None = None  # start of the last open wait
    waiting: dict[str, Figures] = field(default_factory=dict)  # waiting candidates, by reason
    sizes: dict[str, int] = field(default_factory=dict)  # of the examples of these, by address
    confirmed: dict[str, Figures] = field(default_factory=dict)  # candidates after their wait, by reason

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
        """Count the rows of a shard and its candidates. `facts`: counts of `rows`. `found`: candidates of the run, with
        `code` and `reason`. `confirmed`: mask of the candidates whose wait is over."""
        new = rows.filter(
            pc.and_(pc.equal(rows["run_id"], turn.run_id), pc.equal(rows["since"], _time(turn.begins_at)))
        )
        mask = pa.array(confirmed)
        is_confirmed = pc.is_in(rows["address"], found.filter(mask)["address"].combine_chunks())
        rest = cls.of_part(PartFacts.of(rows.filter(pc.invert(is_confirmed))))
        by_status = dict(facts.by_status)
        if new.num_rows:
            by_status[FOUND_NOW] = Figures(objects=new.num_rows, size_bytes=pc.sum(new["size"]).as_py())
        held_off = found.filter(pc.and_(pc.is_null(found["code"]), pc.invert(mask)))
        waiting = _by_reason(held_off)
        examples = [name for figures in waiting.values() for name in figures.examples]
        own = held_off.filter(pc.is_in(held_off["address"], pa.array(examples, pa.string())))
        return replace(
            rest,
            by_status=by_status,
            waiting=waiting,
            sizes=dict(zip(own["address"].to_pylist(), own["size"].to_pylist(), strict=True)),
            confirmed=_by_reason(found.filter(mask)),
        )

    @property
    def examples(self) -> list[dict[str, Any]]:
        """Some waiting candidates: `address`, `size`."""
        names = [name for figures in self.waiting.values() for name in figures.examples]
        return [{"address": name, "size": self.sizes[name]} for name in names[:EXAMPLES_MAX]]

    def to_details(self, grace: timedelta) -> dict[str, Any]:
        """Return the JSON for summaries and reports. Returns `by_status` (objects and bytes), `found_now`, `waiting`,
        `confirmed` (each `objects`, `bytes`), `first_deletion` and `last_deletion` (ISO 8601; None without waiting
        objects), `grace_seconds`."""
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


def _by_reason(rows: pa.Table) -> dict[str, Figures]:
    found = {}
    for sums in rows.group_by("reason").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        own = rows.filter(pc.equal(rows["reason"], sums["reason"]))["address"]
        found[sums["reason"]] = Figures(
            objects=sums["size_count"],
            size_bytes=sums["size_sum"],
            examples=tuple(own.slice(0, EXAMPLES_MAX).to_pylist()),
        )
    return found
