"""Who may delete a version: each of the wrappers refuses what could take something living."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.storage.model import DeleteOutcome, MaySend, always
from dredge.storage.undo import (
    NO_OWN_ID,
    NULL_VERSION,
    ExactVersionDeleter,
    MarkerRemover,
    NamedVersionDeleter,
    ObjectVersion,
    OldVersionDeleter,
    Versioning,
    check_source,
)

type Named = tuple[str, str]


class Versions:
    def __init__(self) -> None:
        self.deleted: list[list[Named]] = []
        self.may_send: MaySend | None = None

    def delete(self, wanted: Sequence[Named], may_send: MaySend = always) -> list[DeleteOutcome]:
        self.deleted.append(list(wanted))
        self.may_send = may_send
        return [DeleteOutcome(key, "deleted", message=version) for key, version in wanted]


@pytest.fixture
def versions() -> Versions:
    return Versions()


def version(version_id: str = "v1", **facts: Any) -> ObjectVersion:
    plain = {"is_latest": False, "is_marker": False, "size": 3, "etag": "e"}
    return ObjectVersion(
        version_id=version_id, last_modified=datetime(2026, 3, 1, tzinfo=UTC), **{**plain, **facts}
    )


def no() -> bool:
    return False


MIXED = [("a", "v1"), ("b", NULL_VERSION), ("c", "v2")]


@pytest.mark.parametrize("found", ["suspended", "off", "unknown"])
def test_an_id_that_an_upload_may_take_is_deleted_only_while_versioning_is_on(
    versions: Versions, found: Versioning
) -> None:
    outcomes = NamedVersionDeleter(versions, lambda: found).delete(MIXED, no)
    assert versions.deleted == [[("a", "v1"), ("c", "v2")]]
    assert versions.may_send is no
    assert [(item.key, item.outcome, item.code) for item in outcomes] == [
        ("a", "deleted", None),
        ("b", "failed", NO_OWN_ID),
        ("c", "deleted", None),
    ]
    assert f"the versioning of the bucket is {found}" in str(outcomes[1].message)


def test_where_only_such_ids_are_given_and_versioning_is_off_nothing_is_sent(versions: Versions) -> None:
    (outcome,) = NamedVersionDeleter(versions, lambda: "off").delete([("b", NULL_VERSION)])
    assert (outcome.code, versions.deleted) == (NO_OWN_ID, [])


def test_nobody_asks_about_versioning_for_ids_that_never_change(versions: Versions) -> None:
    def fails() -> Versioning:
        raise AssertionError("a request for nothing")

    assert len(NamedVersionDeleter(versions, fails).delete([MIXED[0], MIXED[2]])) == 2
    assert versions.deleted == [[MIXED[0], MIXED[2]]]


def test_who_takes_markers_away_takes_no_version(versions: Versions) -> None:
    remover = MarkerRemover(versions)
    with pytest.raises(RefusedError, match="v1 of 'a' is no delete marker"):
        remover.remove("a", version())
    assert versions.deleted == []
    assert remover.remove("a", version("m1", is_marker=True)).outcome == "deleted"
    assert versions.deleted == [[("a", "m1")]]


def test_of_versions_with_a_current_one_none_is_deleted(versions: Versions) -> None:
    old, current = version("v1"), version("v2", is_latest=True)
    with pytest.raises(RefusedError, match="v2 of 'b' is the current one"):
        OldVersionDeleter(versions).delete([("a", old), ("b", current)])
    assert versions.deleted == []


def test_old_versions_and_markers_on_top_may_go(versions: Versions) -> None:
    marker = version("m1", is_latest=True, is_marker=True)
    outcomes = OldVersionDeleter(versions).delete([("a", version("v1")), ("a", marker)], no)
    assert [item.outcome for item in outcomes] == ["deleted"] * 2
    assert (versions.deleted, versions.may_send) == ([[("a", "v1"), ("a", "m1")]], no)


@pytest.mark.parametrize("version_id", ["", NULL_VERSION])
def test_of_exact_versions_with_one_that_may_name_something_newer_none_is_deleted(
    versions: Versions, version_id: str
) -> None:
    with pytest.raises(RefusedError, match="'b' was written while the bucket kept no versions"):
        ExactVersionDeleter(versions).delete([("a", "v1"), ("b", version_id)])
    assert versions.deleted == []


@pytest.mark.parametrize(
    ("size", "etag", "why"),
    [(4, None, "has 3 bytes, not 4"), (4, "e", "bytes"), (3, "f", "changed"), (None, "f", "changed")],
)
def test_a_source_that_is_another_is_not_copied(size: int | None, etag: str | None, why: str) -> None:
    with pytest.raises(FormatError, match=f"{why}.*nothing was copied"):
        check_source("a", 3, "e", size, etag)
