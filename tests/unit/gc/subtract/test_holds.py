"""A hold is one function in one list: what it applies to stays, and is counted, reported and written to the ledger."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from msgspec.structs import replace

from dredge.gc.subtract import SAME_SIZE, candidates, why_of_hold
from dredge.gc.subtract.candidates import UNREADABLE, UPLOAD_PARTS, Evidence, Hold, Mask, holds_of
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.sets.hashes import write_hashes
from dredge.sets.live import LocatedSet, ShardedSet
from dredge.storage import open_writer
from dredge.undo.pins import PINNED
from tests.support.gc import World, make_world, summary_of
from tests.support.memory_store import forget_memory_store

LEGAL = "legal_hold"
EVIDENCE = Evidence()


def on_legal_hold(rows: pa.Table, evidence: Evidence) -> Mask:
    """What a user's own guard may look like: whatever lies below a folder stays."""
    del evidence
    return pc.starts_with(rows["address"], "data/legal/").to_numpy()


@pytest.fixture
def legal_hold(monkeypatch: pytest.MonkeyPatch) -> Hold:
    """A hold that the package does not have, registered as a new one would be: at the end of the list."""
    hold = Hold(LEGAL, "it lies below the folder of a legal hold", on_legal_hold)
    monkeypatch.setattr(candidates, "HOLDS", [*candidates.HOLDS, hold])
    return hold


def test_pieces_of_an_upload_that_goes_on_are_held_and_no_others() -> None:
    names = [
        "data/a/x.part_00001",
        "data/a/x.multipart",
        "data/a/y.part_00001",
        "data/a/x",
        "data/a/x.part_1",
    ]

    def held(uploading: pa.Array | None) -> list[str | None]:
        codes: list[str | None] = holds_of(rows(*names), replace(EVIDENCE, uploading=uploading)).to_pylist()
        return codes

    assert held(pa.array(["data/a/x"])) == [UPLOAD_PARTS, UPLOAD_PARTS, None, None, None]
    assert held(pa.array(["data/a/z"])) == [None] * 5
    assert held(pa.array([], pa.string())) == [None] * 5
    assert held(None) == [None] * 5


def world_with_two_orphans(**settings: object) -> tuple[World, str, str]:
    """A committed object, an orphan below the folder of the hold, and another one as long as nothing else."""
    world = make_world(**settings, rules=30)
    world.commit("a", b"committed")
    held, free = world.orphan("data/legal/x", b"held"), world.orphan("data/slice/y", b"to be deleted")
    world.age(days=2)
    return world, held, free


def test_a_new_hold_keeps_counts_reports_and_notes_its_objects(legal_hold: Hold) -> None:
    world, held, free = world_with_two_orphans()
    context = world.collected()
    assert held in world.data()
    assert free not in world.data()
    found, checked = summary_of(context, "subtract"), summary_of(context, "check_limits")
    assert found.counts["candidates_objects"] == 2
    for counts in (found.counts, checked.counts):
        assert (counts["held_objects"], counts["held_bytes"], counts["legal_hold_objects"]) == (1, 4, 1)
    assert (checked.counts["deletable_objects"], checked.counts["deletable_bytes"]) == (1, 13)
    report = context.folder.read_json("report.json")
    (kept,) = report["held"]
    assert (kept["code"], kept["why"]) == (LEGAL, legal_hold.why)
    assert kept["examples"] == [{"address": held, "size": 4}]
    assert (report["counts"]["held_objects"], report["counts"]["deleted_objects"]) == (1, 1)
    assert legal_hold.why in [row["why"] for row in report["rows"] if row["verdict"] == "kept"]
    assert legal_hold.why in context.folder.writer.get("report.html").decode()
    groups = summary_of(context, "bulk_delete").details["groups"]
    assert [group["objects"] for group in groups if group["code"] == LEGAL] == [1]
    assert guard_json_codes(context.folder.read_json("guard.json")) == [LEGAL]


def guard_json_codes(guard: dict[str, list[dict[str, str]]]) -> list[str]:
    return [item["code"] for item in guard["held"]]


@pytest.mark.usefixtures("legal_hold", "without_canaries")
def test_a_proof_about_its_size_does_not_free_what_another_hold_keeps() -> None:
    """Both holds apply. The branch is asked and does not serve the object, which proves nothing about the other."""
    world = make_world()
    world.commit("a", b"same")
    both, size_only = world.orphan("data/legal/x", b"else"), world.orphan("data/slice/y", b"ELSE")
    world.age(days=2)
    context = world.collected()
    assert summary_of(context, "check_limits").counts["cleared_objects"] == 1
    assert both in world.data()
    assert size_only not in world.data()


def rows(*addresses: str) -> pa.Table:
    names = pa.array(addresses, pa.string())
    sizes = pa.array([1] * len(addresses), pa.int64())
    return pa.table({"address": names, "size": sizes, "hash": pa.array(hash64(names))})


def everything(rows: pa.Table, evidence: Evidence) -> Mask:
    del evidence
    return np.ones(rows.num_rows, bool)


def test_of_several_holds_the_first_counts_and_one_that_may_be_lifted_the_last() -> None:
    lifted = Hold("lifted", "", everything, may_be_lifted=True)
    legal, other = Hold(LEGAL, "", on_legal_hold), Hold("other", "", everything)
    for order, codes in (
        ([lifted], ["lifted", "lifted"]),
        ([lifted, legal], [LEGAL, "lifted"]),
        ([lifted, legal, other], [LEGAL, "other"]),
        ([other, legal, lifted], ["other", "other"]),
        ([legal], [LEGAL, None]),
    ):
        assert holds_of(rows("data/legal/x", "data/y"), EVIDENCE, order).to_pylist() == codes


def test_objects_of_unknown_age_are_held_whatever_their_size() -> None:
    undescribed = Evidence(undescribed=True)
    assert holds_of(rows("data/x"), undescribed).to_pylist() == [UNREADABLE]
    assert holds_of(rows("data/x"), EVIDENCE).to_pylist() == [None]


def located(name: str, *values: int) -> tuple[LocatedSet, ...]:
    folder = RunFolder(open_writer("memory://holds-test/run"), "run")
    part = write_hashes(folder, f"{name}.u64", np.array(sorted(values), np.uint64))
    return (LocatedSet(folder.uri, ShardedSet(0, {0: part})),)


def test_what_was_brought_back_or_is_as_long_as_an_entry_of_a_head_is_held_in_this_order() -> None:
    names = [f"data/{letter}" for letter in "ps-"]
    some = rows(*names)
    some = some.set_column(some.schema.get_field_index("size"), "size", pa.array([7, 7, 8], pa.int64()))
    p, *_ = hash64(pa.array(names)).tolist()
    evidence = Evidence(head_sizes=located("sizes", 7), pinned=located("pinned", p))
    assert holds_of(some, evidence).to_pylist() == [PINNED, SAME_SIZE, None]
    forget_memory_store("holds-test")
    assert why_of_hold(PINNED) != why_of_hold(SAME_SIZE)
    assert why_of_hold("another") is None


def test_only_the_hold_for_an_equal_size_may_be_lifted() -> None:
    assert [hold.code for hold in candidates.HOLDS if hold.may_be_lifted] == [SAME_SIZE]


@pytest.mark.parametrize(
    "answer", [np.array([0, 0, 1]), np.array([None, True, False]), np.array([True]), np.bool_(True), [2]]
)
def test_a_hold_that_does_not_answer_for_each_row_stops_the_run(answer: object) -> None:
    """Zeros and ones would be taken for positions: the first rows would be held, and the meant one deleted."""
    wrong = Hold("wrong", "of a mistake", lambda *_: answer)  # type: ignore[arg-type,return-value]
    rows = pa.table({"address": ["data/a", "data/b", "data/legal/c"]})
    with pytest.raises(TypeError, match="hold wrong gave"):
        holds_of(rows, EVIDENCE, [wrong])
