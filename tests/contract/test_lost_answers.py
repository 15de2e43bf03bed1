"""What every remote store says of deletions whose answers were lost: the same."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

from dredge.storage import (
    DeleteOutcome,
    StorageOptions,
    open_deleter,
    open_reader,
    open_versions,
    open_writer,
)
from dredge.storage.options import AzureOptions, GcsOptions
from tests.support.losing_proxy import LosingProxy
from tests.support.object_stores import AZURITE, new_folder

GONE = "missing on a second request; the first answer was lost"
CONFIRMED = "confirmed by a second request; the first answer was"


@dataclass
class Place:
    """A folder of a kind of store, and how it is reached."""

    kind: str
    uri: str
    options: StorageOptions

    @contextmanager
    def losing(self, loses: Callable[[str, str], bool]) -> Iterator[tuple[LosingProxy, str, StorageOptions]]:
        """Put a proxy before the store; gives URI and options by which it is reached through it."""
        azure, gcs = self.options.azure, self.options.gcs
        with LosingProxy(
            str(self.options.endpoint_url or azure.endpoint_url or gcs.endpoint), loses
        ) as proxy:
            if self.kind == "azure":
                there = replace(
                    self.options, azure=AzureOptions(azure.account, azure.key, endpoint_url=proxy.url)
                )
                yield proxy, self.uri.replace(str(azure.endpoint_url), proxy.url), there
            elif self.kind == "gcs":
                yield proxy, self.uri, replace(self.options, gcs=GcsOptions(endpoint_url=proxy.url))
            else:
                yield proxy, self.uri, replace(self.options, endpoint_url=proxy.url)

    def keys(self) -> list[str]:
        return [
            key for batch in open_reader(self.uri, self.options).list() for key in batch["key"].to_pylist()
        ]


@pytest.fixture(params=["s3", "gcs", AZURITE])
def place(request: pytest.FixtureRequest) -> Place:
    return Place(request.param, *new_folder(request, request.param))


def is_deletion(method: str, path: str) -> bool:
    return method == "DELETE" or (method == "POST" and ("delete" in path or "batch" in path))


def loses_the_first(turns: int = 1) -> Callable[[str, str], bool]:
    seen: list[str] = []

    def loses(method: str, path: str) -> bool:
        if not is_deletion(method, path):
            return False
        seen.append(path)
        return len(seen) <= turns

    return loses


def deleted(place: Place, keys: list[str], loses: Callable[[str, str], bool]) -> list[DeleteOutcome]:
    with place.losing(loses) as (_, uri, options):
        return open_deleter(uri, options).delete(keys)


@pytest.mark.parametrize("keys", [["data/a"], ["data/a", "data/b"]])
def test_what_is_gone_after_a_lost_answer_was_deleted_by_it_and_says_so(
    place: Place, keys: list[str]
) -> None:
    writer = open_writer(place.uri, place.options)
    for key in [*keys, "data/stays"]:
        writer.put(key, b"x")
    found = deleted(place, keys, loses_the_first())
    assert [(item.key, item.outcome, item.code) for item in found] == [(key, "deleted", None) for key in keys]
    # S3 confirms what is absent as well, so that it does not tell the two apart.
    words = CONFIRMED if place.kind == "s3" else GONE
    assert all(str(item.message).startswith(words) for item in found)
    assert place.keys() == ["data/stays"]


def test_what_a_clear_answer_calls_absent_is_missing_and_nothing_is_noted(place: Place) -> None:
    open_writer(place.uri, place.options).put("data/a", b"x")
    found = deleted(place, ["data/a", "data/never"], lambda *_: False)
    absent = "deleted" if place.kind == "s3" else "missing"
    assert [(item.outcome, item.message) for item in found] == [("deleted", None), (absent, None)]


def test_an_answer_that_stays_lost_is_no_deletion(place: Place) -> None:
    open_writer(place.uri, place.options).put("data/a", b"x")
    asked = iter([True, False])
    with place.losing(loses_the_first(99)) as (_, uri, options):
        (found,) = open_deleter(uri, options).delete(["data/a"], lambda: next(asked))
    assert (found.outcome, found.code) == ("failed", "ConnectionError")


@pytest.mark.parametrize("kind", ["s3", "gcs"])
def test_a_version_whose_deletion_was_not_heard_of_is_found_among_the_versions(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place = Place(kind, *new_folder(request, kind, versioned=True))
    etag = open_writer(place.uri, place.options).put("data/a", b"content")
    # Where versions are kept Google Cloud Storage is asked for the generation first.
    turns = iter([False, True] if kind == "gcs" else [True])
    (found,) = deleted(
        place, ["data/a"], lambda method, path: is_deletion(method, path) and next(turns, False)
    )
    assert found.outcome == "deleted"
    if kind == "gcs":
        assert found.version_id is None
        assert str(found.message).endswith("; its version id is not known")
    versions = open_versions(place.uri, place.options).versions("data/a")
    assert [item.etag for item in versions if not item.is_marker] == [etag]
    assert versions[0].is_marker
