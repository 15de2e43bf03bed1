"""Lost tips and unreferenced snapshots are kept; a lost tip of main needs a person's consent."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dredge.errors import FormatError, RefusedError, WitnessError
from dredge.icechunk.collection.config import IcechunkPurgeConfig
from dredge.icechunk.collection.steps import (
    Run,
    bulk_delete,
    find_garbage,
    plan_collection,
    purge,
    release_lease,
)
from dredge.icechunk.collection.witness.judging import ask_witnesses, forget_lost
from dredge.icechunk.collection.witness.record import KNOWN, note_released
from dredge.icechunk.history import Ref
from dredge.icechunk.library import delete_ref
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_writer
from tests.support.icechunk_expiring import expire, expire_in_place
from tests.support.icechunk_past import Past

HERE = LocalRunner()


@pytest.fixture
def v1(tmp_path: Path) -> Past:
    return Past(tmp_path / "v1", 1)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def past(tmp_path: Path, request: pytest.FixtureRequest) -> Past:
    return Past(tmp_path / "repo", request.param)


def now() -> datetime:
    return datetime.now(UTC)


def test_refs_that_were_put_back_lose_nothing_that_a_run_called_live(v1: Past) -> None:
    v1.commit()
    with v1.put_back("refs"):
        late = [v1.commit() for _ in range(3)]
        v1.collect()
    before, record = v1.objects(), v1.record()
    for _ in range(2):
        with pytest.raises(WitnessError) as refused:
            v1.collect()
        assert late[-1] in str(refused.value)
        assert (v1.objects(), v1.record()) == (before, record)
        v1.pass_days(40)
        record = v1.record()


def test_tip_of_main_below_another_branch_is_lost_although_an_expiration_cut_that_branch(v1: Past) -> None:
    v1.commit()
    main = v1.folder / "refs/branch.main/ref.json"
    earlier = main.read_bytes()
    late = v1.commit()
    expired = now()
    v1.library.create_branch("dev", late)
    v1.commit("dev")
    v1.collect()
    v1.pass_days(40)
    v1.library.expire_snapshots(expired)
    main.write_bytes(earlier)
    with pytest.raises(WitnessError, match=late):
        v1.collect()
    forget_lost(v1.uri, "main is to be there")
    for _ in range(2):
        v1.collect()
        assert late in v1.objects()["snapshots"]


def test_a_person_is_asked_once_and_what_was_lost_is_kept_all_the_same(v1: Past) -> None:
    v1.commit()
    with v1.put_back("refs"):
        late = v1.commit()
        v1.collect()
    v1.pass_days(40)
    assert len(forget_lost(v1.uri, "the job that ran since was wrong", "ann")) == 1
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.read(late, 2) == [2, 2]
    assert forget_lost(v1.uri, "nothing is refused any more") == []
    v1.pass_days(31)
    assert v1.collect()["deleted"]["objects"] > 0
    assert late not in v1.objects()["snapshots"]


def test_statement_of_a_person_holds_for_that_loss_and_for_no_later_one(v1: Past) -> None:
    v1.commit()
    older = v1.tip()
    late = v1.commit()
    v1.collect()
    v1.library.reset_branch("main", older)
    forget_lost(v1.uri, "reset on purpose")
    v1.collect()
    v1.library.reset_branch("main", late)
    v1.collect()
    v1.library.reset_branch("main", older)
    with pytest.raises(WitnessError):
        v1.collect()


def test_record_that_was_copied_back_with_refs_proves_nothing(past: Past) -> None:
    past.commit()
    past.collect()
    what = "refs" if (past.folder / "refs").exists() else "repo"
    with past.put_back(what), past.put_back("_dredge"):
        late = past.commit()
        past.collect()
    past.pass_days(40)
    (past.folder / "_dredge" / KNOWN).touch()
    before, record = past.objects(), past.record()
    for _ in range(2):
        with pytest.raises(WitnessError):
            past.collect()
        assert (past.objects(), past.record()) == (before, record)
    assert len(forget_lost(past.uri, "copied to another bucket")) == 1
    for _ in range(2):
        assert past.collect()["deleted"]["objects"] == 0
        assert late in past.objects()["snapshots"]
    past.pass_days(31)
    assert past.collect()["deleted"]["objects"] > 0
    assert late not in past.objects()["snapshots"]


def test_tip_that_only_a_record_knew_that_was_copied_back_is_kept(v1: Past) -> None:
    v1.commit()
    with v1.put_back("refs"):
        tip = v1.commit()
        v1.collect()
    v1.pass_days(40)
    (v1.folder / "_dredge" / KNOWN).touch()
    with pytest.raises(WitnessError):
        v1.collect()
    forget_lost(v1.uri, "copied to another bucket")
    for _ in range(2):
        v1.collect()
        assert tip in v1.objects()["snapshots"]
    v1.pass_days(31)
    v1.collect()
    assert tip not in v1.objects()["snapshots"]


def test_dry_run_leaves_what_it_saw_and_is_refused_as_well(v1: Past) -> None:
    v1.commit()
    with v1.put_back("refs"):
        v1.commit()
        v1.collect(dry_run=True)
    with pytest.raises(WitnessError):
        v1.collect(dry_run=True)


def test_commit_that_no_run_saw_is_kept_when_refs_are_put_back(v1: Past) -> None:
    v1.commit()
    v1.collect()
    with v1.put_back("refs"):
        v1.commit()
        late = v1.commit()
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.read(late, 2) == [2, 2]
    assert v1.read(late, 3) == [3, 3]


def test_commit_that_no_run_saw_in_a_long_pause_is_kept_from_the_first_run_that_missed_it(v1: Past) -> None:
    v1.commit()
    v1.collect()
    with v1.put_back("refs"):
        v1.commit()
        late = v1.commit()
    v1.pass_days(60)
    assert v1.collect()["deleted"]["objects"] == 0
    v1.pass_days(29)
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.read(late, 3) == [3, 3]
    v1.pass_days(2)
    assert v1.collect()["deleted"]["objects"] > 0
    assert late not in v1.objects()["snapshots"]


def test_commit_that_loses_its_branch_to_an_expiration_is_kept_like_a_lost_one(v1: Past) -> None:
    v1.commit()
    v1.library.create_branch("job", v1.tip())
    v1.commit("job")
    v1.commit()
    v1.collect()
    late = list[str]()

    def delete_a_moment_late(ref: Ref) -> None:
        late.append(v1.commit(ref.name))
        delete_ref(v1.library, ref)

    applied = expire_in_place(
        open_writer(v1.uri), now(), delete_expired_branches=True, delete_ref=delete_a_moment_late
    )
    note_released(v1.state, applied.plan.released)
    for _ in range(3):
        v1.pass_days(9)
        assert v1.collect()["outcome"] == "success"
        assert v1.read(late[0], 4) == [4, 4]
    assert late[0] in ask_witnesses(v1.uri).unnamed
    v1.pass_days(31)
    v1.collect()
    assert late[0] not in v1.objects()["snapshots"]


def test_snapshot_that_nothing_names_is_garbage_once_it_is_old(v1: Past) -> None:
    v1.commit()
    with v1.put_back("refs"):
        late = v1.commit()
    v1.collect()
    v1.pass_days(31)
    assert v1.collect()["deleted"]["objects"] > 0
    assert late not in v1.objects()["snapshots"]


def test_lost_tip_is_kept_from_the_first_run_that_missed_it_whatever_its_age(v1: Past) -> None:
    v1.commit()
    repo = v1.library
    repo.create_branch("job", v1.tip())
    tip = v1.commit("job")
    v1.collect()
    v1.pass_days(100)
    repo.delete_branch("job")
    assert v1.collect()["deleted"]["objects"] == 0
    v1.pass_days(29)
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.read(tip, 2) == [2, 2]
    v1.pass_days(2)
    assert v1.collect()["deleted"]["objects"] > 0


@pytest.mark.parametrize("by", ["dry run", "purge"])
def test_mark_that_keeps_lost_tips_for_less_time_forgets_none(v1: Past, by: str) -> None:
    v1.commit()
    repo = v1.library
    repo.create_branch("job", v1.tip())
    tip = v1.commit("job")
    v1.collect()
    v1.pass_days(100)
    repo.delete_branch("job")
    v1.collect()
    v1.pass_days(40)
    assert v1.collect(keep_lost_days=90)["deleted"]["objects"] == 0
    if by == "dry run":
        assert v1.collect(keep_lost_days=0, dry_run=True)["outcome"] == "dry_run"
    else:
        purge(IcechunkPurgeConfig(repository=v1.uri, dry_run=False), HERE)
    assert v1.collect(keep_lost_days=90)["deleted"]["objects"] == 0
    assert v1.read(tip, 2) == [2, 2]
    v1.pass_days(51)
    assert v1.collect(keep_lost_days=90)["deleted"]["objects"] > 0


def test_expiration_by_the_library_asks_no_person_and_what_it_released_goes(past: Past) -> None:
    for _ in range(3):
        past.commit()
    past.collect()
    past.commit()
    past.collect()
    history = past.objects()["snapshots"]
    released = past.library.expire_snapshots(older_than=now())
    past.commit()
    assert past.collect()["outcome"] == "success"
    gone = history - past.objects()["snapshots"]
    assert gone
    assert gone <= released


def test_expiration_by_the_library_that_released_mains_last_known_tip_asks_no_person(past: Past) -> None:
    past.commit()
    past.collect()
    tip = past.tip()
    threshold = now()
    past.commit()
    past.library.expire_snapshots(older_than=threshold)
    assert past.collect()["outcome"] == "success"
    assert (tip in past.objects()["snapshots"]) is (past.known().lost.keys() == {tip})


def test_main_that_was_put_back_to_its_root_and_written_again_asks_a_person(v1: Past) -> None:
    with v1.put_back("refs"):
        v1.commit()
        v1.collect()
    v1.commit()
    with pytest.raises(WitnessError):
        v1.collect()


def test_what_dredge_expired_goes_also_where_no_mark_saw_it_before(past: Past) -> None:
    for _ in range(3):
        past.commit()
    released = past.objects()["snapshots"] - {past.tip()}
    expire(past.uri, now())
    past.collect()
    assert len(released & past.objects()["snapshots"]) == 1  # the root


def test_released_snapshot_that_was_a_tip_again_is_lost_when_refs_are_put_back(v1: Past) -> None:
    first = v1.commit()
    v1.commit()
    v1.collect()
    expire(v1.uri, now())
    with v1.put_back("refs"):
        v1.library.create_branch("again", first)
        v1.collect()
    v1.pass_days(40)
    assert v1.collect()["deleted"]["objects"] == 0
    assert v1.read(first, 1) == [1, 1]


def test_repository_that_was_made_again_under_its_name_starts_anew(v1: Past) -> None:
    v1.commit()
    v1.collect()
    for path in [path for path in v1.folder.iterdir() if path.name != "_dredge"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    v1.create(1)
    v1.commit()
    assert v1.collect()["outcome"] == "success"


@pytest.mark.parametrize("kind", ["snapshots", "manifests", "chunks"])
def test_what_is_missing_below_a_snapshot_that_nothing_names_is_no_damage(v1: Past, kind: str) -> None:
    v1.commit()
    before = v1.objects()[kind]
    with v1.put_back("refs"):
        lost = v1.commit()
        late = v1.commit()
    missing = {lost} if kind == "snapshots" else v1.objects()[kind] - before
    assert missing
    for name in missing:
        (v1.folder / kind / name).unlink()
    for mode in ("clean", "auto"):
        assert v1.collect(mode=mode)["outcome"] == "success"
    assert late in v1.objects()["snapshots"]


@pytest.mark.parametrize("kind", ["manifests", "chunks"])
def test_what_main_needs_is_missed_also_where_a_lost_snapshot_names_it(v1: Past, kind: str) -> None:
    v1.commit()
    missing = v1.objects()[kind]
    with v1.put_back("refs"):
        late = v1.commit()
    for name in missing:
        (v1.folder / kind / name).unlink()
    before = v1.objects()
    with pytest.raises((FormatError, RefusedError)):
        v1.collect()
    assert v1.objects() == before
    assert late in before["snapshots"]


def test_snapshot_that_nothing_names_and_that_was_written_since_the_mark_keeps_what_it_names(
    v1: Past,
) -> None:
    v1.commit()
    v1.library.create_branch("job", v1.tip())
    base = v1.commit("job")
    v1.library.delete_branch("job")
    run = Run.open(plan_collection(v1.config(keep_lost_days=0)).run_uri)
    find_garbage(run, HERE)
    with v1.put_back("refs"):
        v1.library.create_branch("again", base)
        late = v1.commit("again")
    assert bulk_delete(run, HERE).counts["unnamed_since_mark"] == 2
    release_lease(run)
    assert v1.read(late, 2) == [2, 2]
    assert v1.read(late, 3) == [3, 3]
