"""How the pending list advances: held against a plain model, row by row, and what must not happen, one by one."""

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dredge.hashing import hash64
from dredge.runs.payload import from_file, to_json
from dredge.runs.pending.rows import (
    FOUND,
    LIVE,
    PENDING,
    WAITING,
    YOUNG,
    Advanced,
    PartFacts,
    Turn,
    advance,
    due,
)

START = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
AGE = 25 * HOUR // timedelta(microseconds=1)

# Ids sort newest first.
OLDER, STATE, NEWER, THIS = "d", "c", "b", "a"


def turn(**changes: Any) -> Turn:
    return structs.replace(
        Turn(
            run_id=THIS,
            marked_at=START + 20 * HOUR,
            now=START + 21 * HOUR,
            cutoff=START - 5 * HOUR,
            min_age=25 * HOUR,
            grace=20 * HOUR,
            waits=True,
            lists_all=True,
            state_of=STATE,
        ),
        **changes,
    )


@dataclass(frozen=True)
class Row:
    address: str = "data/x"
    size: int = 1
    etag: str | None = "e"
    version_id: str | None = None
    last_modified: datetime | None = START - 50 * HOUR
    status: str = WAITING
    since: datetime | None = START
    run_id: str | None = OLDER
    min_age: int | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Seen:
    address: str = "data/x"
    size: int = 1
    etag: str | None = "e"
    version_id: str | None = None
    last_modified: datetime | None = START - 50 * HOUR
    code: str | None = None


def table(rows: list[Any], schema: pa.Schema) -> pa.Table:
    hashes = hash64(pa.array([row.address for row in rows], pa.string()))
    dicts = [{**vars(row), "hash": int(value)} for row, value in zip(rows, hashes, strict=True)]
    return pa.Table.from_pylist(dicts, schema=schema)


def do(
    rows: list[Row],
    seen: list[Seen],
    run: Turn,
    live: set[str] = frozenset(),
    deleted: set[str] = frozenset(),
) -> tuple[list[Row], set[str]]:
    found = advance_tables(rows, seen, run, live, deleted)
    after = [
        Row(**{name: value for name, value in row.items() if name != "hash"})
        for row in found.rows.to_pylist()
    ]
    assert found.rows.schema == PENDING
    assert found.rows["hash"].to_pylist() == hash64(found.rows["address"].combine_chunks()).tolist()
    return after, {item.address for item, confirmed in zip(seen, found.confirmed, strict=True) if confirmed}


def advance_tables(
    rows: list[Row], seen: list[Seen], run: Turn, live: set[str], deleted: set[str]
) -> Advanced:
    names = [row.address for row in rows]
    masks = [np.array([name in names_of for name in names], bool) for names_of in (live, deleted)]
    return advance(table(rows, PENDING), table(seen, FOUND), *masks, run)


def one(row: Row | None, seen: Seen | None, **changes: Any) -> tuple[Row | None, bool]:
    after, confirmed = do([row] if row else [], [seen] if seen else [], turn(**changes))
    assert len(after) < 2
    return (after[0] if after else None), bool(confirmed)


def test_what_is_found_for_the_first_time_waits_from_when_the_mark_was_complete() -> None:
    row, confirmed = one(None, Seen())
    assert row == Row(since=START + 21 * HOUR, run_id=THIS)
    assert not confirmed


def test_what_has_waited_may_be_deleted_and_not_a_moment_earlier() -> None:
    assert one(Row(), Seen()) == (Row(), True)
    early = START + timedelta(microseconds=1)
    assert one(Row(since=early), Seen()) == (Row(since=early), False)


def test_a_run_does_not_confirm_what_it_found_itself() -> None:
    assert one(Row(run_id=THIS), Seen()) == (Row(run_id=THIS), False)


@pytest.mark.parametrize(
    "change",
    [
        {"size": 2},
        {"etag": "f"},
        {"version_id": "v"},
        {"last_modified": START - 50 * HOUR + timedelta(seconds=1)},
    ],
)
def test_what_changed_waits_anew(change: dict[str, Any]) -> None:
    before = Row(version_id="u")
    row, confirmed = one(before, Seen(**{"version_id": "u", **change}))
    assert row == replace(before, **change, since=START + 21 * HOUR, run_id=THIS)
    assert not confirmed


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        (Row(etag=None), Seen()),
        (Row(), Seen(etag=None)),
        (Row(version_id="v"), Seen()),
        (Row(last_modified=START - 50 * HOUR + timedelta(milliseconds=999)), Seen()),
    ],
)
def test_what_one_side_lacks_is_not_compared_and_fractions_of_a_second_are_not(row: Row, seen: Seen) -> None:
    after, confirmed = one(row, seen)
    assert confirmed
    assert after == replace(row, etag="e")


@pytest.mark.parametrize("status", [YOUNG, LIVE, "same_size"])
def test_what_did_not_wait_before_waits_from_now_on(status: str) -> None:
    row, confirmed = one(Row(status=status, since=None, run_id=None), Seen())
    assert row == Row(since=START + 21 * HOUR, run_id=THIS)
    assert not confirmed


def test_what_is_held_loses_its_wait_and_what_is_young_for_one_run_keeps_it() -> None:
    assert one(Row(), Seen(code="pinned")) == (Row(status="pinned", since=None, run_id=None), False)
    assert one(Row(), Seen(code=YOUNG)) == (Row(), False)
    changed = one(Row(), Seen(code=YOUNG, size=2))
    assert changed == (Row(size=2, status=YOUNG, since=None, run_id=None), False)


def test_a_wait_that_begins_in_the_future_begins_now() -> None:
    ahead = Row(since=START + 30 * HOUR)
    assert one(ahead, Seen()) == (Row(since=START + 21 * HOUR, run_id=THIS), False)
    assert one(ahead, None, lists_all=False) == (Row(since=START + 21 * HOUR, run_id=THIS), False)


def test_a_wait_that_began_before_an_object_was_old_begins_now() -> None:
    age = turn().min_age
    assert one(Row(last_modified=START - age), Seen(last_modified=START - age))[1]
    early = START - age + timedelta(seconds=1)
    row, confirmed = one(Row(last_modified=early), Seen(last_modified=early), cutoff=START)
    assert (row, confirmed) == (Row(last_modified=early, since=START + 21 * HOUR, run_id=THIS), False)
    kept = Row(last_modified=early)
    assert one(kept, Seen(last_modified=early, code=YOUNG)) == (kept, False)


@pytest.mark.parametrize("change", [-1, 0, 1])
def test_where_nobody_knows_its_time_a_wait_goes_on_if_its_run_asked_for_the_age(change: int) -> None:
    before, seen = Row(last_modified=None, min_age=AGE + change), Seen(last_modified=None)
    row, confirmed = one(before, seen)
    assert row is not None
    assert confirmed is (change >= 0)
    assert (row.since, row.min_age) == ((START, AGE + change) if confirmed else (START + 21 * HOUR, AGE))
    young, _ = one(before, replace(seen, code=YOUNG))
    assert young is not None
    assert (young, young.min_age) == (before, AGE + change)


def test_a_clock_that_goes_back_while_a_mark_is_made_lets_no_wait_begin_before_it() -> None:
    row, _ = one(None, Seen(), now=START)
    assert row == Row(since=START + 20 * HOUR, run_id=THIS)


def test_what_lives_leaves_once_the_state_knows_it() -> None:
    row = Row()
    (after,), _ = do([row], [], turn(), live={row.address})
    assert after == Row(status=LIVE, since=None, run_id=THIS)
    later = turn(run_id="0", state_of=STATE)
    (again,), _ = do([after], [], later, live={row.address})
    assert again == after, "the state of an older run does not know it"
    assert do([after], [], turn(run_id="0", state_of=THIS), live={row.address}) == ([], set())
    assert do([row], [], turn(state_of=None), live={row.address}) == ([], set())


def test_what_was_not_listed_is_not_gone() -> None:
    fresh = Row(since=START + 20 * HOUR, run_id=NEWER)
    assert one(fresh, None, lists_all=False) == (fresh, False)
    assert one(Row(), None, lists_all=False) == (None, False), "it was looked for"
    assert one(fresh, None) == (None, False), "everything was listed"
    young = Row(last_modified=START, status=YOUNG, since=None, run_id=None)
    assert one(young, None, lists_all=False) == (young, False)
    assert one(young, None) == (young, False), "listings leave young slices out"
    assert one(replace(young, last_modified=START - 6 * HOUR), None, lists_all=False) == (None, False)


names = st.sampled_from(["data/a", "data/b", "data/c", "data/d"])

hours = st.integers(-60, 25).map(lambda hours: START + hours * HOUR)

about = {
    "size": st.sampled_from([1, 2]),
    "etag": st.sampled_from([None, "e", "f"]),
    "version_id": st.sampled_from([None, None, "v", "w"]),
    "last_modified": st.one_of(hours, st.just(START - 50 * HOUR)),
}


@st.composite
def pending(draw: st.DrawFn) -> list[Row]:
    found = []
    for name in sorted(draw(st.sets(names))):
        status = draw(st.sampled_from([WAITING, WAITING, WAITING, YOUNG, LIVE, "pinned"]))
        began = status == WAITING
        found.append(
            Row(
                name,
                **{of: draw(values) for of, values in about.items()},
                status=status,
                since=draw(hours) if began else None,
                run_id=draw(st.sampled_from([OLDER, NEWER, THIS])) if began or status == LIVE else None,
                min_age=draw(st.sampled_from([None, AGE - 1, AGE, AGE + 1])) if began else None,
            )
        )
    return found


@st.composite
def listed(draw: st.DrawFn) -> list[Seen]:
    code = st.sampled_from([None, None, YOUNG, "pinned"])
    return [
        Seen(name, **{of: draw(values) for of, values in about.items()}, code=draw(code))
        for name in draw(st.sets(names))
    ]


@given(
    pending(),
    listed(),
    st.sets(names),
    st.sets(names),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, STATE]),
)
def test_advancing_is_as_the_model_says(
    rows: list[Row],
    seen: list[Seen],
    live: set[str],
    deleted: set[str],
    lists_all: bool,
    waits: bool,
    state_of: str | None,
) -> None:
    seen = [item for item in seen if item.address not in live]
    run = turn(lists_all=lists_all, waits=waits, state_of=state_of)
    after, confirmed = do(rows, seen, run, live, deleted)
    expected, may_go = model(rows, seen, run, live, deleted)
    assert after == expected
    assert [row.min_age for row in after] == [row.min_age for row in expected]
    assert confirmed == may_go


@given(pending(), st.booleans())
def test_by_its_facts_a_part_is_not_read_only_if_no_row_of_it_changes_or_is_due(
    rows: list[Row], lists_all: bool
) -> None:
    run, before = turn(lists_all=lists_all), table(rows, PENDING)
    facts = from_file(PartFacts, json.loads(json.dumps(to_json(PartFacts.of(before)))))
    after, _ = do(rows, [], run)
    assert facts.changes(run) or after == rows
    wanted = due(before, run.marked_at, run.grace, run.cutoff)
    assert facts.has_due(run.marked_at, run.grace, run.cutoff) == wanted.any()
    counts = Counter(row.status for row in rows)
    assert {status: figures.objects for status, figures in facts.by_status.items()} == counts
    assert sum(figures.size_bytes for figures in facts.by_status.values()) == sum(row.size for row in rows)


def test_a_part_is_read_in_the_moment_in_which_a_row_changes() -> None:
    def facts(**of: Any) -> PartFacts:
        return PartFacts.of(table([Row(**of)], PENDING))

    moment = timedelta(microseconds=1)
    waits, young = facts(), facts(status=YOUNG, since=None)
    assert waits.has_due(START + 20 * HOUR, 20 * HOUR, START)
    assert not waits.has_due(START + 20 * HOUR - moment, 20 * HOUR, START)
    assert young.has_due(START, HOUR, START - 50 * HOUR + moment)
    assert not young.has_due(START, HOUR, START - 50 * HOUR)
    assert facts(status="pinned", since=None).has_due(START, HOUR, START - 100 * HOUR)
    assert facts(since=START + 30 * HOUR).changes(turn(lists_all=False, grace=100 * HOUR))
    assert facts(last_modified=None).changes(turn())


def model(
    rows: list[Row], seen: list[Seen], run: Turn, live: set[str], deleted: set[str]
) -> tuple[list[Row], set[str]]:
    rows = [
        replace(row, since=run.now, run_id=run.run_id)
        if row.since is not None and row.since > run.now
        else row
        for row in rows
    ]
    before = {row.address: row for row in rows}
    after, confirmed = dict[str, Row](), set[str]()
    for item in seen:
        fields = {name: value for name, value in vars(item).items() if name != "code"}
        row = before.get(item.address)
        goes_on = (
            row is not None
            and row.status == WAITING
            and item.address not in deleted
            and is_same(row, item)
            and row.since is not None
            and (
                item.code == YOUNG
                or (row.min_age or 0) >= AGE
                or row.last_modified + run.min_age <= row.since
            )
        )
        if goes_on:
            assert row is not None
            fields = {
                name: value if getattr(row, name) is None else getattr(row, name)
                for name, value in fields.items()
            }
        if goes_on and item.code in (None, YOUNG):
            assert row is not None
            after[item.address] = Row(**fields, since=row.since, run_id=row.run_id, min_age=row.min_age)
        elif item.code is None:
            after[item.address] = Row(**fields, since=run.now, run_id=run.run_id, min_age=AGE)
        else:
            after[item.address] = Row(**fields, status=item.code, since=None, run_id=None)
        if item.code is None:
            waited = goes_on and row is not None and row.since is not None and row.run_id != run.run_id
            if not run.waits or (waited and row.since + run.grace <= run.marked_at):  # type: ignore[union-attr, operator]
                confirmed.add(item.address)
    for row in rows:
        if row.address in after:
            continue
        if row.address in live:
            if row.status != LIVE:
                row = replace(row, status=LIVE, since=None, run_id=run.run_id, min_age=None)
            if run.state_of is not None and (row.run_id or "") < run.state_of:
                after[row.address] = row
        elif row.address in deleted:
            continue
        elif run.lists_all:
            if row.last_modified >= run.cutoff:
                after[row.address] = row
        elif not is_due(row, run):
            after[row.address] = row
    return [after[name] for name in sorted(after)], confirmed


def is_same(row: Row, item: Seen) -> bool:
    for name in ("size", "etag", "version_id"):
        one, other = getattr(row, name), getattr(item, name)
        if None not in (one, other) and one != other:
            return False
    return row.last_modified.replace(microsecond=0) == item.last_modified.replace(microsecond=0)


def is_due(row: Row, run: Turn) -> bool:
    if row.status == WAITING:
        return row.since is not None and row.since + run.grace <= run.marked_at
    return row.last_modified < run.cutoff if row.status == YOUNG else True
