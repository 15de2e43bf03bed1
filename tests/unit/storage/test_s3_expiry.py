"""Lifecycle rules of a bucket that remove old versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.storage import open_versions
from dredge.storage.s3 import versions as s3_versions
from dredge.storage.undo import ExpiresOldVersions, Expiry
from dredge.undo.ways import VERSIONS, UndoWay, _with_expiry


class _Client:
    def __init__(self, rules: list[dict[str, Any]]) -> None:
        self.rules = rules

    def get_bucket_lifecycle_configuration(self, **_: Any) -> dict[str, Any]:
        return {"Rules": self.rules}


def _rule(days: int, status: str = "Enabled", **more: Any) -> dict[str, Any]:
    return {"Status": status, "NoncurrentVersionExpiration": {"NoncurrentDays": days}, **more}


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([], None),
        ([_rule(7)], 7),
        ([_rule(7), _rule(3, Filter={"Prefix": "lake/data/"})], 3),
        ([_rule(7), _rule(3, Filter={"Prefix": "lake/data/some"})], 3),
        ([_rule(7), _rule(3, Filter={"And": {"Prefix": "elsewhere/"}})], 7),
        ([_rule(7, Prefix="other")], None),
        ([_rule(7, status="Disabled")], None),
        ([{"Status": "Enabled", "Expiration": {"Days": 1}}], None),
        (
            [_rule(7) | {"NoncurrentVersionExpiration": {"NoncurrentDays": 7, "NewerNoncurrentVersions": 2}}],
            None,
        ),
    ],
)
def test_the_first_rule_that_is_in_force_for_the_keys_counts(
    rules: list[dict[str, Any]], days: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_versions, "s3_client", lambda _: _Client(rules))
    store = open_versions("s3://bucket/lake")
    assert isinstance(store, ExpiresOldVersions)
    assert store.expiry("data/") == Expiry(days)


@pytest.fixture
def denied(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def raising(_: Any) -> Any:
        raise ConfigError("AccessDenied")

    monkeypatch.setattr(s3_versions, "s3_client", raising)
    return


@pytest.mark.usefixtures("denied")
def test_a_missing_right_is_said() -> None:
    store = open_versions("s3://bucket/lake")
    assert isinstance(store, ExpiresOldVersions)
    expiry = store.expiry("data/")
    assert expiry == Expiry(None, known=False)
    way = _with_expiry(UndoWay(way=VERSIONS, why="the bucket keeps versions"), expiry)
    assert "s3:GetLifecycleConfiguration" in way.why
    assert way.expire_days is None
