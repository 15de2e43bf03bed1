"""What the answers of a server and the counter of a store say together; silence proves nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.kv_standing import (
    Standing,
    _check_heads,
    _Count,
    _count,
    _judge,
    count_of,
    have_written,
    look,
)
from dredge.kv.memory import MemoryKV
from dredge.lakefs import Usage
from lakefs_embedded.server.usage import PARTITION
from tests.support.gc import make_world
from tests.support.kv_views import WithoutSnapshots
from tests.support.memory_rows import MemoryRows


class Server:
    """Answers with usage reports, in their order; one that tells nothing is None."""

    def __init__(self, *answers: Usage | None) -> None:
        self.answers = [*answers]

    def usage(self) -> Usage | None:
        return self.answers.pop(0)


def used(requests: int, installation: str = "a") -> Usage:
    return Usage(installation, requests)


def written(*answers: Usage | None) -> Usage | None:
    server: Any = Server(*answers)
    found = have_written(server)
    assert not server.answers, "no more is asked than has to be"
    return found


def test_a_server_has_written_when_its_counter_grew_between_two_answers() -> None:
    assert written(used(5), used(6)) == used(6)
    assert written(used(5), used(5), used(5), used(9)) == used(9)
    assert written(*[used(5)] * 6) is None
    assert written(used(5), used(4), used(3), used(5), used(6)) == used(6)


@pytest.mark.parametrize("answers", [[None], [used(5, "")], [used(5), None], [used(5), used(6, "b")]])
def test_a_server_that_does_not_tell_or_is_another_one_meanwhile_has_not_written(
    answers: list[Usage | None],
) -> None:
    assert written(*answers) is None


def counted(before: Usage | None, store: bytes, *after: Usage | None) -> _Count | None:
    kv = MemoryKV()
    kv.set(PARTITION, b"usage/monthly/a/202601", store)
    server: Any = Server(*after)
    with MemoryRows(kv).view() as view:
        found = _count(server, before, count_of(view, "a"))
    assert not server.answers
    return found


def test_a_store_is_counted_between_two_answers_of_the_same_server() -> None:
    assert counted(used(5), b"7", used(9)) == _Count(5, 7, 9)
    assert counted(None, b"7") is None
    assert counted(used(5), b"no number", used(9)) is None
    assert counted(used(5), b"7", None) is None
    assert counted(used(5), b"7", used(9, "b")) is None


@pytest.mark.parametrize(("found", "fits"), [(4, False), (5, True), (7, True), (9, True), (10, False)])
def test_a_counter_fits_between_what_the_server_said_before_and_after(found: int, fits: bool) -> None:
    assert _Count(5, found, 9).fits is fits


FITS, COPY = _Count(5, 7, 9), _Count(5, 4, 9)


@pytest.mark.parametrize(
    ("counts", "unknown", "says", "refuted", "partial"),
    [
        ([FITS, FITS], [], "", False, False),
        (
            [FITS, COPY],
            [],
            "the store counts 4 requests where the server's own store had 5 to 9",
            True,
            False,
        ),
        ([None, COPY], ["branches/new"], "it is a copy", True, False),
        ([FITS, FITS], ["branches/new"], "such as branches/new have fields", False, True),
        ([FITS, None], [], "nothing shows that the server writes to the store", False, False),
        ([None, None], [], "nothing shows", False, False),
    ],
)
def test_records_are_proved_by_every_count_and_refuted_by_one(
    counts: list[_Count | None], unknown: list[str], says: str, refuted: bool, partial: bool
) -> None:
    records: Any = SimpleNamespace(location="the store", unknown=unknown)
    found = _judge(records, counts)
    assert (found.location, found.refuted, found.partial) == ("the store", refuted, partial)
    assert says in found.doubt
    assert (found == Standing("the store")) is (says == "")


@pytest.mark.parametrize(
    ("before", "after", "there", "is_ours"),
    [
        ("c1", "c1", "c1", True),
        ("c1", "c2", "c2", True),
        ("c1", "c2", "c3", True),
        ("c1", None, None, True),
        ("c1", "c1", "c2", False),
        ("c1", "c1", None, False),
    ],
)
def test_a_branch_that_did_not_move_has_its_head_in_the_servers_own_store(
    before: str, after: str | None, there: str | None, is_ours: bool
) -> None:
    records: Any = SimpleNamespace(location="the store", heads={"b": there} if there else {})
    heads = {"b": after} if after else {}
    if is_ours:
        _check_heads(records, {"b": before}, heads)
    else:
        with pytest.raises(RefusedError, match=r"branch b is at commit c1… on the server, and (at|not)"):
            _check_heads(records, {"b": before}, heads)


def test_the_store_that_is_named_is_opened_and_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DREDGE_KV_URL", raising=False)
    world = make_world()
    access: Any = WithoutSnapshots(world)
    branches, standing = look(world.plan(), lambda records: records.branches(), access)
    assert [branch.name for branch in branches] == ["main"]
    assert standing.doubt == ""
