"""An expiration keeps refs by name and by age."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.expiration import apply
from dredge.icechunk.expiration.apply import OutcomeDiffersError
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.plan import kept_refs
from dredge.icechunk.format.metadata import instant, parse_repo_info
from dredge.icechunk.history import Ref
from dredge.icechunk.library import delete_ref
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import Graph, build, local_storage, quiet
from tests.support.icechunk_expiring import expire, expire_by_library

LINE = Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "2", "rel-1": "1", "old": "1"}, {"v1": "1"})
BOTH: dict[str, Any] = {"delete_expired_branches": True, "delete_expired_tags": True}


@pytest.mark.parametrize("spec", [1, 2])
@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        ({}, set()),
        ({"keep_refs": "rel-*"}, {"branch:rel-1"}),
        ({"keep_refs": "tag:*, nothing"}, {"tag:v1"}),
        ({"keep_refs_younger_hours": 1.0}, {"branch:rel-1", "branch:old", "tag:v1"}),
    ],
)
def test_kept_refs_survive_an_expiration_of_everything(
    spec: int, settings: dict[str, Any], kept: set[str], tmp_path: Path
) -> None:
    ids = build(local_storage(tmp_path), LINE, spec)
    done = expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, **settings)

    after = read_history(open_reader(f"file://{tmp_path}"))
    assert {ref.label for ref in after.refs} == {"branch:main"} | kept
    assert {ref.label for ref in done.refs_deleted} == {"branch:rel-1", "branch:old", "tag:v1"} - kept
    # A kept tip stays in the history; without a ref it is released.
    assert (ids["1"] in after.snapshots) == bool(kept)


def test_a_name_with_characters_of_globs_is_kept_by_its_own_spelling(tmp_path: Path) -> None:
    build(local_storage(tmp_path), Graph((("1", "0", 1.0), ("2", "1", 2.0)), {"main": "2", "a[1]": "1"}), 2)
    expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, keep_refs="a[1]")
    assert "a[1]" in read_history(open_reader(f"file://{tmp_path}")).branches


def test_a_young_ref_is_found_in_the_older_parts_of_the_log(tmp_path: Path) -> None:
    build(local_storage(tmp_path), LINE, 2)
    settings = quiet().RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 2
    library = quiet().Repository.open(local_storage(tmp_path), config=settings)
    for _ in range(4):
        library.writable_session("main").commit("more", allow_empty=True)
    done = expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, keep_refs_younger_hours=1.0)
    assert done.refs_deleted == ()


def kept_since(folder: Path, micros: int) -> frozenset[str]:
    reader, now = open_reader(f"file://{folder}"), instant(micros) + timedelta(hours=1)
    expiration = Expiration(threshold=now.isoformat(), **BOTH, keep_refs_younger_hours=1.0)
    return kept_refs(reader, read_history(reader), expiration, now)


def test_ages_of_refs_are_unknown_back_from_an_upgrade_or_a_lost_part_of_the_log(tmp_path: Path) -> None:
    """The upgrade gives a ref the time of its snapshot."""
    icechunk, every = quiet(), {"branch:main", "branch:rel-1", "branch:old", "tag:v1"}
    build(local_storage(tmp_path / "old"), LINE, 1)
    icechunk.upgrade_icechunk_repository(
        icechunk.Repository.open(local_storage(tmp_path / "old")), dry_run=False
    )
    upgraded = parse_repo_info((tmp_path / "old" / "repo").read_bytes()).updates[0].updated_at
    assert kept_since(tmp_path / "old", upgraded) == every
    assert kept_since(tmp_path / "old", upgraded + 1) == set()

    build(local_storage(tmp_path / "cut"), LINE, 2)
    settings = icechunk.RepositoryConfig.default()
    settings.num_updates_per_repo_info_file = 2
    library = icechunk.Repository.open(local_storage(tmp_path / "cut"), config=settings)
    for _ in range(4):
        library.writable_session("main").commit("more", allow_empty=True)
    oldest = parse_repo_info((tmp_path / "cut" / "repo").read_bytes()).updates[-1].updated_at
    for copy in (tmp_path / "cut" / "overwritten").iterdir():
        copy.unlink()
    assert kept_since(tmp_path / "cut", oldest) == every
    assert kept_since(tmp_path / "cut", oldest + 1) == {"branch:main"}


@pytest.mark.parametrize("spec", [1, 2])
def test_a_clock_ahead_of_the_store_expires_nothing(
    spec: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(local_storage(tmp_path), LINE, spec)
    now = datetime.now(UTC) + timedelta(days=2)
    monkeypatch.setattr(apply, "utc_now", lambda: now)
    with pytest.raises(RefusedError):
        expire(f"file://{tmp_path}", now, **BOTH, keep_refs_younger_hours=24.0)
    assert len(read_history(open_reader(f"file://{tmp_path}")).refs) == 4


def test_a_branch_that_moves_before_its_deletion_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(local_storage(tmp_path), LINE, 2)
    library = quiet().Repository.open(local_storage(tmp_path))

    def busy(repository: Any, ref: Ref) -> None:
        if ref.kind == "tag":  # the first one
            library.writable_session("old").commit("goes on", allow_empty=True)
        delete_ref(repository, ref)

    monkeypatch.setattr(apply, "delete_ref", busy)
    done = expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, keep_refs="nothing")
    assert {ref.label for ref in done.refs_deleted} == {"branch:rel-1", "tag:v1"}
    assert set(read_history(open_reader(f"file://{tmp_path}")).branches) == {"main", "old"}


def test_a_branch_that_moves_during_its_deletion_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(local_storage(tmp_path), LINE, 2)
    library = quiet().Repository.open(local_storage(tmp_path))
    tips = []

    def busy(repository: Any, ref: Ref) -> None:
        if ref.name == "old":
            tips.append(library.writable_session("old").commit("goes on", allow_empty=True))
        delete_ref(repository, ref)

    monkeypatch.setattr(apply, "delete_ref", busy)
    with pytest.raises(OutcomeDiffersError) as caught:
        expire(f"file://{tmp_path}", datetime.now(UTC), **BOTH, keep_refs="nothing")
    assert tips[0] in str(caught.value)
    library.create_branch("old", tips[0])


def test_a_snapshot_that_a_new_branch_holds_is_not_recorded_as_released(tmp_path: Path) -> None:
    ids = build(local_storage(tmp_path), LINE, 2)
    library = quiet().Repository.open(local_storage(tmp_path))

    def busy(ref: Ref) -> None:
        if ref.kind == "tag":
            library.create_branch("job", ids["1"])
        delete_ref(library, ref)

    done = expire_by_library(
        open_reader(f"file://{tmp_path}"),
        lambda *_: pytest.fail("nothing is left to expire"),
        datetime.now(UTC),
        **BOTH,
        kept_refs=["branch:job"],
        delete_ref=busy,
    )
    assert {ref.label for ref in done.refs_deleted} == {"branch:rel-1", "branch:old", "tag:v1"}
    assert done.plan.released == ()
    assert ids["1"] in done.plan.after.live()
