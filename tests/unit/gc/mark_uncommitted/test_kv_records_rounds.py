"""Tokens are read until no branch names another one, and copies after all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.staging import Records, _read


class Store:
    """Branches with one token each, by look; the last look is what stays.

    Attributes:
        read: what was read, in order.
    """

    location = "the store"

    def __init__(self, *looks: dict[str, str], consistent: bool = False) -> None:
        self.looks = [*looks]
        self.consistent = consistent
        self.heads: dict[str, str] = {}
        self.read: list[str] = []

    def branches(self) -> list[Any]:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        self.read.append("branches")
        self.heads |= {name: f"head of {token}" for name, token in look.items()}
        return [
            SimpleNamespace(name=name, commit_id=f"head of {token}", tokens=(token,) if token else ())
            for name, token in look.items()
        ]

    def staged(self, token: str) -> Iterator[tuple[str, ...]]:
        self.read.append(token)
        yield (f"data/{token}",)

    def copies(self) -> Iterator[tuple[str, ...]]:
        self.read.append("copies")
        yield ("data/copy",)

    def records(self, rounds_max: int = 3) -> tuple[Records, list[str]]:
        """What is read, and the addresses that it names."""
        found: list[str] = []

        def take(entries: Iterator[tuple[str, ...]]) -> int:
            before = len(found)
            found.extend(key for keys in entries for key in keys)
            return len(found) - before

        plan = SimpleNamespace(
            repository="lake", config=SimpleNamespace(safety=SimpleNamespace(scan_rounds_max=rounds_max))
        )
        arguments: Sequence[Any] = (SimpleNamespace(plan=plan, keys=None), self, SimpleNamespace(take=take))
        return _read(*arguments), found


def test_elsewhere_branches_are_looked_at_until_nothing_is_new_and_each_token_is_read_once() -> None:
    store = Store({"a": "t1"}, {"a": "t2", "b": "t1"}, {"a": "t2"})
    records, found = store.records()
    assert store.read == ["branches", "t1", "branches", "t2", "branches", "copies"]
    assert found == ["data/t1", "data/t2", "data/copy"]
    assert (records.tokens, records.rows) == (2, 3)
    assert records.heads == {("a", "head of t1"), ("a", "head of t2"), ("b", "head of t1")}


def test_branches_that_name_no_token_at_all_are_not_believed() -> None:
    """Every branch of a server has one."""
    with pytest.raises(RefusedError):
        Store({"a": ""}).records()
