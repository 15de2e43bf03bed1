"""Of what was looked at only that goes which may, versions before the markers above them, and each is told of."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import pytest

from dredge.storage import NOT_SENT, DeleteOutcome, ObjectVersion, open_writer
from dredge.storage.model import MaySend, always
from dredge.undo import leftovers as deleting
from dredge.undo.leftovers import FAILED, PINNED, PURGED, UNSENT, WOULD_GO, YOUNG, Leftover, delete_leftovers
from dredge.undo.ways import QUARANTINE, VERSIONS, quarantine_uri
from tests.support.memory_store import forget_memory_store

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def held(name: str, is_marker: bool = False) -> ObjectVersion:
    return ObjectVersion(
        version_id=name, is_latest=is_marker, is_marker=is_marker, size=7, etag="t", last_modified=LONG_AGO
    )


def copy(name: str, outcome: str = WOULD_GO) -> Leftover:
    return Leftover({"address": f"data/{name}", "size": 7}, outcome, QUARANTINE)


def versions(name: str, outcome: str = WOULD_GO, parts: str = "vm") -> Leftover:
    version, marker = (
        held(f"{name}-v") if "v" in parts else None,
        held(f"{name}-m", True) if "m" in parts else None,
    )
    return Leftover({"address": f"data/{name}", "size": 7}, outcome, VERSIONS, version, marker)


@pytest.fixture
def lake() -> Iterator[str]:
    name = f"deleting-{uuid.uuid4().hex[:8]}"
    yield f"memory://{name}/lake"
    forget_memory_store(name)


class Deleter:
    """Of versions; answers for single ids as it is told."""

    def __init__(self, answers: dict[str, tuple[str, str]]) -> None:
        self.answers = answers
        self.asked: list[list[tuple[str, str]]] = []

    def delete(self, wanted: Sequence[tuple[str, ObjectVersion]], may_send: MaySend) -> list[DeleteOutcome]:
        self.asked.append([(key, version.version_id) for key, version in wanted])
        told = [self.answers.get(version.version_id, ("deleted", "")) for _, version in wanted]
        return [DeleteOutcome(key, *answer) for (key, _), answer in zip(wanted, told, strict=True)]  # type: ignore[arg-type]


@pytest.fixture
def deleter(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Deleter]:
    """Puts a deleter of versions in the place of the store's."""

    def put(**answers: tuple[str, str]) -> Deleter:
        made = Deleter({name.replace("_", "-"): answer for name, answer in answers.items()})
        monkeypatch.setattr(deleting, "open_old_version_deleter", lambda *_: made)
        return made

    return put


def outcomes(lake: str, chosen: Sequence[Leftover], may_send: MaySend = always) -> list[tuple[str, str]]:
    found = delete_leftovers(lake, f"{lake}/run", chosen, may_send)
    assert [(item.row, item.way) for item in found] == [(item.row, item.way) for item in chosen]
    return [(item.outcome, item.message) for item in found]


def test_only_copies_that_would_go_are_deleted_and_none_outside_of_their_folder(lake: str) -> None:
    copies, namespace = open_writer(quarantine_uri(f"{lake}/run")), open_writer(lake)
    for name in "abc":
        copies.put(f"data/{name}", b"garbage")
        namespace.put(f"data/{name}", b"came back")
    told = outcomes(lake, [copy("a"), copy("b", YOUNG), copy("c", PINNED), copy("d")])
    assert told == [(PURGED, ""), (YOUNG, ""), (PINNED, ""), (PURGED, "")], "what is gone already is gone"
    assert [item.key for item in copies.list_level("data/").objects] == ["data/b", "data/c"]
    assert len(namespace.list_level("data/").objects) == 3


def test_what_may_not_be_sent_is_left_to_a_later_purge(lake: str) -> None:
    copies = open_writer(quarantine_uri(f"{lake}/run"))
    copies.put("data/a", b"garbage")
    assert outcomes(lake, [copy("a")], lambda: False) == [(UNSENT, "")]
    assert copies.get("data/a") == b"garbage"


def test_versions_go_first_and_markers_only_above_those_that_went(
    lake: str, deleter: Callable[..., Deleter]
) -> None:
    made = deleter(
        b_v=("failed", "AccessDenied"), c_v=("missing", ""), d_v=("failed", NOT_SENT), f_m=("failed", "Slow")
    )
    chosen = [versions(name) for name in "abcd"]
    chosen += [versions("e", YOUNG), versions("f", parts="m"), versions("g", parts="v")]
    told = outcomes(lake, chosen)
    assert made.asked == [
        [(f"data/{name}", f"{name}-v") for name in "abcdg"],
        [(f"data/{name}", f"{name}-m") for name in "acf"],
    ]
    assert told[:4] == [(PURGED, ""), (FAILED, "AccessDenied: "), (PURGED, ""), (UNSENT, "")]
    assert told[4:] == [(YOUNG, ""), (FAILED, "Slow: "), (PURGED, "")]
