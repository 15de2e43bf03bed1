"""Rows of the pending list, and how a mark advances them.

    found now      the row before                          the row after                    may be deleted
    free           waits, unchanged, old when that began   keeps its `since`                when the grace is over, and
                                                                                            another run began the wait
    free           anything else, or none                  waits from now on                no
    young          waits, unchanged                        stays as it was                  no
    young          anything else, or none                  young                            no
    held           anything                                the code of the hold             no
    no, but live   anything                                live, until the state that runs build on knows it as live
    no             deleted by the run that left the state  leaves
    no             was looked for                          leaves
    no             anything else                           stays as it was

Pure: tables in, tables out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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
FOUND = pa.schema([*_OBJECT, pa.field("code", pa.string()), pa.field("reason", pa.string())])
"""Rows of what a mark found. `last_modified` is null where nobody asked the store. `code` is that of what holds the
object, or `YOUNG`; null: nothing holds it. `reason`: why it is garbage."""
PENDING = pa.schema(
    [
        *_OBJECT,
        pa.field("status", pa.string(), nullable=False),
        pa.field("since", _TIME),
        pa.field("run_id", pa.string()),
        pa.field("min_age", pa.int64()),
    ]
)
"""Rows of the list. `status` is `WAITING`, `YOUNG`, `LIVE`, or the code of what holds the object. `since`, `run_id` and
`min_age` (microseconds) are of the run that began the wait; of a live row `run_id` is the run that saw it live."""

type Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A run that advances the list; a payload.

    Attributes:
        run_id: the run.
        marked_at: when it was planned, before it read anything.
        now: when its mark had read its last input; waits begin then, but never before `marked_at`.
        cutoff: an object that was modified later is young.
        min_age: younger objects are young; a wait that began at an earlier age is none.
        grace: how long an object waits at least.
        waits: whether an object waits for another run at all; without it every free one may be deleted.
        lists_all: whether what is old and was not found is gone: the run listed everything.
        state_of: run that left the state that the next run builds on if this one does not come to its end; None where
            the next one would build on none.
    """

    run_id: str
    marked_at: datetime
    now: datetime
    cutoff: datetime
    min_age: timedelta
    grace: timedelta
    waits: bool
    lists_all: bool
    state_of: str | None

    @property
    def min_age_us(self) -> int:
        """`min_age` in microseconds."""
        return self.min_age // timedelta(microseconds=1)

    @property
    def begins_at(self) -> datetime:
        """When waits begin: a clock that went back since the run was planned makes none longer."""
        return max(self.now, self.marked_at)


@dataclass(frozen=True, slots=True)
class Advanced:
    """What became of some rows.

    Attributes:
        rows: the new list (`PENDING`), sorted by address.
        confirmed: for each that was found, whether it may be deleted.
    """

    rows: pa.Table
    confirmed: Mask


def due(rows: pa.Table, marked_at: datetime, grace: timedelta, cutoff: datetime) -> Mask:
    """Tell of each row whether a run that does not list everything has to look for the object.

    Args:
        rows: of the list.
        marked_at: when the run was planned.
        grace: how long an object waits at least.
        cutoff: an object that was modified later is young.
    """
    over = _is_at_most(rows["since"], marked_at - grace)
    old = _is_before(rows["last_modified"], cutoff)
    return np.where(_is(rows, WAITING), over, np.where(_is(rows, YOUNG), old, True))


def changes(rows: pa.Table, turn: Turn) -> bool:
    """Tell whether any of some rows, of which none was found and none is live, does not stay as it is.

    Args:
        rows: of the list, with at least `last_modified`, `status` and `since`.
        turn: the run.
    """
    return bool((_is_gone(rows, turn) | _is_future(rows, turn)).any())


def advance(previous: pa.Table, found: pa.Table, live: Mask, deleted: Mask, turn: Turn) -> Advanced:
    """Advance the list by what a mark found.

    Args:
        previous: the list (`PENDING`), sorted by address.
        found: by the mark (`FOUND`); no address is live, and none is in it twice.
        live: for each row of the list, whether it is live now.
        deleted: for each row of the list, whether the run that left the state deleted it.
        turn: the run.
    """
    previous, live, deleted = _in_time(previous, turn), np.array(live), np.array(deleted)
    if not found.num_rows:
        # As most shards are in most runs; the list is sorted already.
        left = ~(deleted & ~live)
        kept = _unseen_rows(previous.filter(pa.array(left)), live[left], turn)
        return Advanced(kept.combine_chunks(), np.zeros(0, bool))
    rows, confirmed = _found_rows(previous, found, deleted, turn)
    unseen = ~_mask(pc.is_in(previous["address"], found["address"].combine_chunks())) & ~(deleted & ~live)
    kept = _unseen_rows(previous.filter(pa.array(unseen)), live[unseen], turn)
    return Advanced(pa.concat_tables([rows, kept]).sort_by("address").combine_chunks(), confirmed)


def _in_time(previous: pa.Table, turn: Turn) -> pa.Table:
    """The list without waits that begin in the future: the clock went back, and they begin now."""
    future = _is_future(previous, turn)
    if not future.any():
        return previous
    return _with(previous, future, {"since": turn.begins_at, "run_id": turn.run_id})


def _is_future(rows: pa.Table, turn: Turn) -> Mask:
    return ~_is_at_most(rows["since"], turn.begins_at) & _mask(pc.is_valid(rows["since"]))


def _is_gone(rows: pa.Table, turn: Turn) -> Mask:
    """Whether objects that were not found, and are not live, are gone: they were listed, or looked for."""
    if turn.lists_all:
        return _mask(pc.fill_null(pc.less(rows["last_modified"], _time(turn.cutoff)), True))
    return due(rows, turn.marked_at, turn.grace, turn.cutoff)


def _found_rows(previous: pa.Table, found: pa.Table, deleted: Mask, turn: Turn) -> tuple[pa.Table, Mask]:
    place = pc.index_in(found["address"], previous["address"].combine_chunks())
    before = previous.take(place)  # null where there was none
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
    columns = [_known(before[name], found[name], goes_on) for name in FOUND.names[: len(_OBJECT)]]
    columns += [status, since, run_id, min_age]
    rows = pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, PENDING, strict=True)], schema=PENDING
    )
    return rows, confirmed


def _known(before: pa.ChunkedArray, found: pa.ChunkedArray, goes_on: Mask) -> pa.ChunkedArray:
    """A column of what was found; where an object is as it was, all that is known of it stays."""
    return pc.if_else(pa.array(goes_on), pc.coalesce(before, found), found)


def _unseen_rows(rows: pa.Table, live: Mask, turn: Turn) -> pa.Table:
    """Rows of what was not found."""
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
    """Whether an object was old by the age of this run when its wait began: the run that began it asked for that age,
    or the object's own time shows it."""
    asked = pc.greater_equal(before["min_age"], turn.min_age_us)
    modified = pc.coalesce(before["last_modified"], found["last_modified"])
    shown = pc.less_equal(pc.add(modified, turn.min_age), before["since"])
    return _mask(pc.fill_null(asked, False)) | _mask(pc.fill_null(shown, False))


def _unchanged(before: pa.Table, found: pa.Table) -> Mask:
    """Whether an object is as it was; a field that one side lacks is not compared."""
    same = np.ones(found.num_rows, bool)
    for name in ("size", "etag", "version_id"):
        same &= _mask(pc.fill_null(pc.equal(before[name], found[name]), True))
    # Listings and single looks may give other fractions of a second.
    seconds = (pc.floor_temporal(rows["last_modified"], unit="second") for rows in (before, found))
    return same & _mask(pc.fill_null(pc.equal(*seconds), True))


def _with(rows: pa.Table, which: Mask, values: Mapping[str, object]) -> pa.Table:
    """Rows with other values where a mask says so."""
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


def _is_before(times: pa.ChunkedArray, at: datetime) -> Mask:
    return _mask(pc.fill_null(pc.less(times, _time(at)), False))


def _time(at: datetime) -> pa.Scalar:
    return pa.scalar(at, _TIME)


def _mask(found: pa.Array | pa.ChunkedArray) -> Mask:
    return np.asarray(found, bool)
