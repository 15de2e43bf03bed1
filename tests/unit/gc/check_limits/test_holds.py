"""What is held is told in one place, and nothing but a proof about the object itself lifts a hold."""

import numpy as np
import pyarrow as pa
import pytest
from msgspec.structs import replace

from dredge.errors import FormatError, UnavailableError
from dredge.gc.check_limits import NO_ANSWER, Holds
from dredge.gc.check_limits.holds import NO_PATH, SERVED, TOO_MANY, UNSETTLED, WAITING, Verdicts
from dredge.gc.steps import bulk_delete
from dredge.gc.subtract import SAME_SIZE, SubtractOutput
from dredge.gc.subtract.candidates import UNREADABLE
from dredge.hashing import hash64
from dredge.lakefs import ObjectStats
from dredge.sets.hashes import NONE, Hashes
from dredge.storage import open_deleter
from tests.support.gc import make_world, stage_again, summary_of
from tests.support.identical import held, many
from tests.support.index_parts import damaged

pytestmark = pytest.mark.usefixtures("without_canaries")


FIRST = "data/aaafirst___0000000000000000slice/00collides1111111111111111"
SECOND = "data/aaa3qsr9sbl0000000000000000slice/00qb5gLi.&1111111111111111"
"""Two addresses with one hash. Who may choose addresses finds such a pair within seconds."""


def test_sweep_keeps_a_held_object_that_has_the_hash_of_a_cleared_one() -> None:
    assert hash64(pa.array([FIRST]))[0] == hash64(pa.array([SECOND]))[0]
    world = make_world()
    world.upload("b", b"longer")
    stage_again(world, world.orphan("data/slice/first", b"same"), "a", size_bytes=4)
    world.lake.commit()
    stage_again(world, world.orphan(FIRST, b"size"), "a", size_bytes=4)
    world.orphan(SECOND, b"LONGER")
    assert world.served()["a"] == FIRST
    honest = world.client.stat

    def stat(repository: str, ref: str, path: str) -> ObjectStats:
        if path == "a":
            raise UnavailableError("lakeFS answered 503 'slow down'")
        return honest(repository, ref, path)

    world.client.stat = stat  # type: ignore[method-assign]
    world.age(days=2)
    context = world.collected()
    assert held(context) == {NO_ANSWER: 1}
    assert FIRST in world.data()
    assert SECOND not in world.data()
    kept = {group["code"] for group in summary_of(context, "bulk_delete").details["groups"] if group["code"]}
    assert kept == {NO_ANSWER}


HASH = 7
"""Of the address of every candidate in the tests below, which is of size 4."""


def candidates(*found: str | None) -> pa.Table:
    """Candidates with the same hash and size, which the classification held by these codes."""
    count = len(found)
    columns = {"hash": pa.array([HASH] * count, pa.uint64()), "size": pa.array([4] * count, pa.int64())}
    return pa.table({**columns, "hold": pa.array(found, pa.string())})


def hashes(*values: int) -> Hashes:
    return np.array(values, np.uint64)


CLEARING = Holds(Verdicts.make(hashes(4), {}, NONE), hashes(HASH))
"""Proofs that clear the candidates of these tests, if anything may."""


def codes_of(holds: Holds, *found: str | None) -> list[str | None]:
    codes: list[str | None] = replace(holds, confirmed=None).codes_of(candidates(*found)).to_pylist()
    return codes


def test_what_is_not_known_to_have_waited_waits() -> None:
    """A file that is missing keeps; what has waited is held by whatever holds it otherwise."""
    found = [None, SAME_SIZE, UNREADABLE]
    waits = [WAITING, WAITING, UNREADABLE]
    assert CLEARING.codes_of(candidates(*found)).to_pylist() == waits
    assert replace(CLEARING, confirmed=hashes(HASH - 1)).codes_of(candidates(*found)).to_pylist() == waits
    waited = replace(CLEARING, confirmed=hashes(HASH))
    assert waited.codes_of(candidates(*found)).to_pylist() == [None, None, UNREADABLE]
    served = Holds(Verdicts.make(hashes(4), {}, hashes(HASH)), hashes(HASH), confirmed=hashes(HASH))
    assert served.codes_of(candidates(SAME_SIZE)).to_pylist() == [SERVED]


def test_a_candidate_that_nothing_holds_may_go_whatever_is_proved() -> None:
    nothing = Holds(Verdicts.make(NONE, {}, NONE), NONE)
    assert codes_of(nothing, None, None) == codes_of(CLEARING, None, None) == [None, None]
    assert codes_of(nothing) == []


def test_a_proof_lifts_the_hold_for_an_equal_size_and_no_other() -> None:
    """All rows have the hash and the size of the one that is cleared; codes that nobody knows hold too."""
    found = [SAME_SIZE, UNREADABLE, "legal_hold", "", None, "same_size "]
    assert codes_of(CLEARING, *found) == [None, UNREADABLE, "legal_hold", "", None, "same_size "]


@pytest.mark.parametrize(
    ("holds", "code"),
    [
        (Holds(Verdicts.make(NONE, {}, NONE), hashes(HASH)), TOO_MANY),
        (Holds(Verdicts.make(hashes(3, 5), {}, NONE), hashes(HASH)), TOO_MANY),
        (Holds(CLEARING.verdicts, NONE), TOO_MANY),
        (Holds(CLEARING.verdicts, hashes(HASH - 1, HASH + 1)), TOO_MANY),
        (Holds(Verdicts.make(hashes(4), {NO_ANSWER: hashes(4)}, NONE), hashes(HASH)), NO_ANSWER),
        (Holds(Verdicts.make(hashes(4), {NO_PATH: hashes(4)}, NONE), hashes(HASH)), NO_PATH),
        (Holds(Verdicts.make(hashes(4), {}, hashes(HASH)), hashes(HASH)), SERVED),
        (Holds(Verdicts(hashes(4), np.array([9], np.int8), NONE), hashes(HASH)), TOO_MANY),
        (Holds(Verdicts(hashes(4), np.array([-1], np.int8), NONE), hashes(HASH)), TOO_MANY),
    ],
    ids=[
        "nothing was looked into",
        "other sizes were",
        "nothing is cleared",
        "other hashes are",
        "no answer",
        "no path",
        "a branch serves it",
        "an unknown code",
        "a negative code",
    ],
)
def test_without_a_whole_proof_an_object_of_equal_size_stays(holds: Holds, code: str) -> None:
    assert codes_of(holds, SAME_SIZE, None, UNREADABLE) == [code, None, UNREADABLE]


@pytest.mark.parametrize("column", ["hash", "size", "hold"])
def test_candidates_without_a_column_that_tells_what_is_held_are_refused(column: str) -> None:
    with pytest.raises(FormatError, match=column):
        CLEARING.codes_of(candidates(None).drop_columns([column]))


@pytest.mark.parametrize("name", ["sizes-00000.parquet", "served.u64", "cleared.u64"])
@pytest.mark.parametrize("damage", ["gone", "changed"])
def test_sweep_deletes_nothing_when_a_proof_is_damaged(name: str, damage: str) -> None:
    world = make_world()
    many(world, 2)
    world.upload("many/00000", b"same")
    world.orphan("data/slice/orphan", b"else")
    world.age(days=2)
    context = world.marked()
    before = world.data()
    writer, key = context.folder.writer, summary_of(context, "check_limits").part(f"check_limits/{name}").key
    data = writer.get(key)
    open_deleter(context.folder.uri).delete([key])
    if damage == "changed":
        writer.put(key, damaged(data))
    with pytest.raises(FormatError):
        bulk_delete(context, world.runner)
    assert world.data() == before


def test_other_holds_than_subtract_counted_stop_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = make_world()
    many(world, 1)
    world.upload("many/00000", b"same")
    world.age(days=2)
    before = world.data()
    monkeypatch.setattr(SubtractOutput, "with_holds", property(lambda _: []))
    with pytest.raises(FormatError, match="held"):
        world.collect()
    assert world.data() == before


def test_a_verdict_is_about_its_own_size_and_one_that_nobody_knows_holds() -> None:
    found = Verdicts(
        np.array([3, 5, 9, 11], np.uint64), np.array([0, 2, 0, 1 + len(UNSETTLED)], np.int8), NONE
    )
    sizes = [2, 3, 4, 5, 9, 10, 11, 12]
    names = pa.array([f"data/{size}" for size in sizes])
    rows = pa.table({"size": pa.array(sizes, pa.int64()), "hash": pa.array(hash64(names))})
    more = TOO_MANY
    assert found.codes_of(rows).to_pylist() == [more, None, more, UNSETTLED[1], None, more, more, more]
