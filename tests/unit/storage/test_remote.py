"""GCS and Azure are not at hand: what their client may do wrong is acted out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import ConfigError, FormatError
from dredge.storage import remote
from dredge.storage.location import Location
from dredge.storage.remote import RemoteDeleter, RemoteReader

AT = Location("gcs", "gs://bkt", "lake", "gs://bkt/lake")
WHEN = datetime(2026, 11, 20, tzinfo=UTC)


class Client:
    """As much of the native client as a test needs."""

    def __init__(self, *pages: list[str]) -> None:
        self.pages = pages
        self.deleted: list[Any] = []
        self.errors: dict[str, Exception] = {}

    def list(self, folder: str | None, **_: Any) -> Iterator[pa.RecordBatch]:
        for names in self.pages:
            columns = {
                "path": pa.array(names),
                "last_modified": pa.array([WHEN] * len(names), pa.timestamp("us", "UTC")),
                "size": pa.array([1] * len(names), pa.uint64()),
                "e_tag": pa.array(['"e"'] * len(names)),
                "version": pa.array([None] * len(names), pa.string()),
            }
            yield pa.RecordBatch.from_pydict(columns)

    def delete(self, name: str) -> None:
        self.deleted.append(name)
        if name in self.errors:
            raise self.errors[name]


def given(monkeypatch: pytest.MonkeyPatch, client: Client) -> Client:
    monkeypatch.setitem(remote._stores, AT.bucket, client)
    return client


def listed(**bounds: str) -> list[str]:
    return [k for b in RemoteReader(AT).list("data/", **bounds) for k in b.column(0).to_pylist()]


def test_keys_in_order_are_listed_relative_to_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, Client(["lake/data/a", "lake/data/b"], ["lake/data/c"]))
    assert listed() == ["data/a", "data/b", "data/c"]
    assert listed(start_after="data/a", stop_before="data/c") == ["data/b"]


@pytest.mark.parametrize(
    "pages",
    [
        [["lake/data/dir", "lake/data/dir"]],
        [["lake/data/dir", "lake/data/dir-a", "lake/data/dir"]],
        [["lake/data/dir"], ["lake/data/dir"]],
        [["lake/data/a", "lake/data/dir"], ["lake/data/dir-a"], ["lake/data/dir", "lake/data/z"]],
    ],
)
def test_a_name_that_lost_its_slash_beside_its_namesake_voids_the_listing(
    monkeypatch: pytest.MonkeyPatch, pages: list[list[str]]
) -> None:
    """P14: data/dir/ (old) listed as data/dir would condemn the young data/dir."""
    given(monkeypatch, Client(*pages))
    with pytest.raises(FormatError, match="order"):
        listed()


def test_every_key_has_its_own_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    from obstore.exceptions import GenericError, PermissionDeniedError

    client = given(monkeypatch, Client())
    client.errors = {
        "lake/gone": FileNotFoundError("gone"),
        "lake/denied": PermissionDeniedError("no"),
        "lake/slow": GenericError("503 ?sig=SECRET&x"),
    }
    keys = ["a", "gone", "denied", "slow", "dir/", "x//y", "b"]
    outcomes = RemoteDeleter(AT).delete(keys)
    assert [(o.key, o.outcome) for o in outcomes] == [
        ("a", "deleted"),
        ("gone", "missing"),
        ("denied", "failed"),
        ("slow", "failed"),
        ("dir/", "not_addressable"),
        ("x//y", "not_addressable"),
        ("b", "deleted"),
    ]
    assert "SECRET" not in str(outcomes[3])
    assert sorted(client.deleted) == ["lake/a", "lake/b", "lake/denied", "lake/gone", "lake/slow"]


def test_a_client_that_cannot_be_built_is_an_error_of_the_configuration() -> None:
    at = Location("gcs", "az://container-without-account", "", "az://container-without-account")
    with pytest.raises(ConfigError):
        RemoteReader(at).stat("k")
