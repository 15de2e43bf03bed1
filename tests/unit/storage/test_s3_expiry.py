"""Lifecycle rules of a bucket that remove old versions."""

import pytest

from dredge.storage import open_versions
from dredge.storage.undo import Expiry
from dredge.undo.preflight import check_lifecycle
from dredge.undo.ways import VERSIONS, UndoWay, _with_expiry
from tests.support.objectstore import ScriptedS3


def _rule(days: int, more: str = "", status: str = "Enabled", newer: str = "") -> str:
    expiration = f"<NoncurrentDays>{days}</NoncurrentDays>{newer}"
    return (
        f"<Rule><Status>{status}</Status>{more}"
        f"<NoncurrentVersionExpiration>{expiration}</NoncurrentVersionExpiration></Rule>"
    )


def _below(prefix: str) -> str:
    return f"<Filter><Prefix>{prefix}</Prefix></Filter>"


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([_rule(7)], 7),
        ([_rule(7), _rule(3, _below("lake/data/"))], 3),
        ([_rule(7), _rule(3, _below("lake/data/some"))], 3),
        ([_rule(7), _rule(3, "<Filter><And><Prefix>elsewhere/</Prefix></And></Filter>")], 7),
        ([_rule(7, "<Prefix>other</Prefix>")], None),
        ([_rule(7, status="Disabled")], None),
        ([_rule(7, newer="<NewerNoncurrentVersions>2</NewerNoncurrentVersions>")], None),
    ],
)
def test_the_first_rule_that_is_in_force_for_the_keys_counts(rules: list[str], days: int | None) -> None:
    told = f"<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>"
    with ScriptedS3(lambda *_: (200, told)) as server:
        store = open_versions("s3://bucket/lake", server.options)
        assert store.expiry("data/") == Expiry(days)


@pytest.mark.parametrize(
    ("expiration", "days"),
    [
        ("<Days>30</Days>", 30),
        ("<Date>2026-12-01T00:00:00Z</Date>", 0),
        ("<ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>", None),
    ],
)
def test_rules_that_remove_objects_are_told_apart(expiration: str, days: int | None) -> None:
    rule = f"<Rule><Status>Enabled</Status><Expiration>{expiration}</Expiration></Rule>"
    told = f"<LifecycleConfiguration>{rule}</LifecycleConfiguration>"
    with ScriptedS3(lambda *_: (200, told)) as server:
        store = open_versions("s3://bucket/lake", server.options)
        assert store.expiry("data/") == Expiry(None, current_days=days)
        levels = [
            line.level for line in check_lifecycle({"state": "s3://bucket/lake/_lakefs"}, server.options)
        ]
    assert levels == ["ok" if days is None else "warning"]


def test_a_bucket_without_rules_keeps_what_it_has() -> None:
    none = "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>"
    with ScriptedS3(lambda *_: (404, none)) as server:
        store = open_versions("s3://bucket/lake", server.options)
        assert store.expiry("data/") == Expiry(None)


def test_a_missing_right_is_said() -> None:
    with ScriptedS3(lambda *_: (403, "<Error><Code>AccessDenied</Code></Error>")) as server:
        store = open_versions("s3://bucket/lake", server.options)
        expiry = store.expiry("data/")
    assert expiry == Expiry(None, known=False)
    way = _with_expiry(UndoWay(way=VERSIONS, why="the bucket keeps versions"), expiry)
    assert "s3:GetLifecycleConfiguration" in way.why
    assert way.expire_days is None
