"""Many writers, readers and committers on one branch, operation by operation, with failures at each of them.

A Hypothesis state machine starts actors, lets them on one operation of the key-value store at a time, fails
operations (undone, or done with a lost answer) and kills processes. What it finds is a list of moves.
DREDGE_EXAMPLES=2000 searches longer.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from dredge.errors import NotFoundError, UnavailableError
from dredge.kv import Entry, Store, open_store
from lakefs_embedded.catalog import Catalog, Commit, Settings
from lakefs_embedded.errors import NoChangesError
from tests.support.faulty import CrashError
from tests.support.lakes import make_lake
from tests.support.overlaps import History, Write, listing, log_ids, stage
from tests.support.turns import Stage

PATHS = ("a", "b", "c")
ACTORS = tuple(f"p{number}" for number in range(5))
pytestmark = pytest.mark.hunt

SEEN: Counter[str] = Counter()
"""What came about in all examples of a test: a machine that stops racing is noticed."""


class Door:
    """A server's way to the store, whatever the actor that uses the server."""

    def __init__(self) -> None:
        self.store: Store | None = None

    @property
    def open(self) -> Store:
        assert self.store is not None
        return self.store

    def get(self, partition: bytes, key: bytes) -> bytes:
        return self.open.get(partition, key)

    def scan(self, partition: bytes, start: bytes = b"") -> Iterator[Entry]:
        return self.open.scan(partition, start)

    def set(self, partition: bytes, key: bytes, value: bytes) -> None:
        self.open.set(partition, key, value)

    def delete(self, partition: bytes, key: bytes) -> None:
        self.open.delete(partition, key)

    def set_if(self, partition: bytes, key: bytes, value: bytes, predicate: bytes | None) -> None:
        self.open.set_if(partition, key, value, predicate)

    def delete_if(self, partition: bytes, key: bytes, predicate: bytes) -> None:
        self.open.delete_if(partition, key, predicate)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


class Branch(RuleBasedStateMachine):
    """One branch and the processes at it. Time is the number of moves so far."""

    def __init__(self, open_kv: Callable[[], Store] = lambda: open_store("memory://")) -> None:
        super().__init__()
        self.kv = open_kv()
        self.lake = make_lake(kv=self.kv, settings=Settings(background=False, write_tries=4))
        self.stage = Stage(self.kv)
        self.history = History(PATHS)
        self.servers: dict[str, tuple[Catalog, Door]] = {}
        self.ends: dict[str, Callable[[object], None]] = {}
        self.committed: list[str] = []
        self.now = 0
        self.values = itertools.count(1)

    # --- rules ---------------------------------------------------------------------------------------------

    @rule(actor=st.sampled_from(ACTORS), path=st.sampled_from(PATHS))
    def write(self, actor: str, path: str) -> None:
        """Begin to write a value of its own."""
        value = f"v{next(self.values)}"
        self._begin(actor, lambda server: stage(server, "lake", path, value), self._writing(path, value))

    @rule(actor=st.sampled_from(ACTORS), path=st.sampled_from(PATHS), no_tombstone=st.booleans())
    def delete(self, actor: str, path: str, no_tombstone: bool) -> None:
        self._begin(
            actor,
            lambda server: server.objects.delete_object("lake", "main", path, no_tombstone=no_tombstone),
            self._writing(path, None),
        )

    @rule(actor=st.sampled_from(ACTORS), allow_empty=st.booleans())
    def commit(self, actor: str, allow_empty: bool) -> None:
        began = self._tick()
        message = f"m{began}"

        def act(server: Catalog) -> object:
            return server.commits.commit(
                "lake", "main", committer=actor, message=message, allow_empty=allow_empty
            )

        self._begin(actor, act, lambda: lambda result: self._commit_ended(result, began))

    @rule(actor=st.sampled_from(ACTORS), path=st.sampled_from(PATHS))
    def read(self, actor: str, path: str) -> None:

        def act(server: Catalog) -> dict[str, str | None]:
            try:
                return {path: server.reading.stat("lake", "main", path).checksum}
            except NotFoundError:
                return {path: None}

        self._begin(actor, act, self._reading)

    @rule(actor=st.sampled_from(ACTORS))
    def read_all(self, actor: str) -> None:
        """Begin to list the branch."""
        self._begin(actor, lambda server: dict.fromkeys(PATHS) | listing(server, "lake"), self._reading)

    @precondition(lambda self: self.stage.pending())
    @rule(data=st.data(), moves=st.integers(1, 6))
    def let_on(self, data: st.DataObject, moves: int) -> None:
        """Let one actor do its next operations."""
        actor = data.draw(st.sampled_from(sorted(self.stage.pending())))
        for _ in range(moves):
            if actor in self.stage.pending():
                self._step(actor)

    @precondition(lambda self: self.stage.pending())
    @rule(data=st.data(), fault=st.sampled_from("-?!"))
    def fail(self, data: st.DataObject, fault: str) -> None:
        """Fail an actor's next operation, or kill it."""
        actor = data.draw(st.sampled_from(sorted(self.stage.pending())))
        SEEN[f"fault {fault}"] += 1
        self._step(actor, fault)

    @rule()
    def drain(self) -> None:
        """A server starts: it goes on with what is queued for dropping."""
        self.lake.another_server().resume()

    def teardown(self) -> None:
        """Let all end, and look at the outcome."""
        try:
            while pending := self.stage.pending():
                self._step(next(iter(pending)))
            self._check_end()
        finally:
            self.stage.abandon()
            self.kv.close()

    # --- what must hold ------------------------------------------------------------------------------------

    def _check_end(self) -> None:
        catalog = self.lake.another_server()
        now = self._tick()
        self.history.require_listing(listing(catalog, "lake"), now, now + 1)
        catalog.resume()
        final = catalog.commits.commit("lake", "main", committer="t", message="final", allow_empty=True)
        self.history.require_listing(listing(catalog, "lake", final.id), now, now + 1)
        log = log_ids(catalog, "lake")
        assert set(self.committed) <= set(log), "an acknowledged commit is not in history"
        assert len(log) == len(set(log))
        assert catalog.branches.get_branch("lake", "main").sealed_tokens == ()
        assert self.lake.rows("cleanup-tokens") == []

    def _writing(self, path: str, value: str | None) -> Callable[[], Callable[[object], None]]:
        def begin() -> Callable[[object], None]:
            write = self.history.begin(path, value, self._tick())
            return lambda result: self._write_ended(write, result)

        return begin

    def _write_ended(self, write: Write, result: object) -> None:
        write.ended = self._tick()
        write.acknowledged = not isinstance(result, BaseException)

    def _reading(self) -> Callable[[object], None]:
        began = self._tick()

        def end(result: object) -> None:
            if isinstance(result, dict):
                self.history.require_readable(result, began, self._tick())

        return end

    def _commit_ended(self, result: object, began: float) -> None:
        if isinstance(result, Commit):
            self.committed.append(result.id)
            tree = listing(self.lake.catalog, "lake", result.id)
        elif isinstance(result, NoChangesError):
            tree = listing(self.lake.another_server(), "lake", "main@")
        else:
            return
        self.history.require_listing(tree, began, self._tick())

    # --- moving --------------------------------------------------------------------------------------------

    def _begin(
        self,
        actor: str,
        act: Callable[[Catalog], object],
        begin: Callable[[], Callable[[object], None]],
    ) -> None:
        if actor in self.stage.pending():
            self._step(actor)  # it is at something else
            return
        if actor not in self.servers:
            door = Door()
            self.servers[actor] = self.lake.another_server(door), door  # type: ignore[arg-type]
        server, door = self.servers[actor]

        def run(kv: Store) -> object:
            door.store = kv
            return act(server)

        self.ends[actor] = begin()
        self.stage.start(actor, run)
        self._look(actor)

    def _step(self, actor: str, fault: str = "") -> None:
        self._tick()
        self.stage.step(actor + fault)
        self._look(actor)

    def _look(self, actor: str) -> None:
        if actor in self.stage.pending():
            return
        result = self.stage.results[actor]
        SEEN[type(result).__name__] += 1
        if isinstance(result, CrashError):
            del self.servers[actor]
        elif isinstance(result, Exception) and not isinstance(result, UnavailableError | NoChangesError):
            raise result
        self.ends.pop(actor)(result)

    def _tick(self) -> int:
        self.now += 1
        return self.now


def search(machine: Callable[[], RuleBasedStateMachine], examples: int, steps: int = 60) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=int(os.environ.get("DREDGE_EXAMPLES", examples)),
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_what_overlapping_operations_see_is_allowed_in_memory() -> None:
    SEEN.clear()
    search(Branch, 40)
    assert {"NoneType", "dict", "Commit", "CrashError", "UnavailableError", "fault ?"} <= SEEN.keys(), SEEN


def test_what_overlapping_operations_see_is_allowed_on_sqlite(tmp_path: Path) -> None:
    def machine() -> Branch:
        folder = tempfile.mkdtemp(dir=tmp_path)
        return Branch(lambda: open_store(f"sqlite://{folder}/kv.db"))

    search(machine, 15)


@pytest.mark.parametrize(
    ("seen", "began", "complaint"),
    [
        ({"a": "1"}, 30, "older than 2"),
        ({"a": None}, 30, "older than 1"),
        ({"a": "4"}, 30, "nobody"),
        ({"a": "5"}, 30, "nobody"),
    ],
)
def test_the_checker_knows_what_is_not_allowed(
    seen: dict[str, str | None], began: float, complaint: str
) -> None:
    history = History(["a"])
    for value, start, end in (("1", 1, 2), ("2", 3, 4), ("3", 3, 6), ("5", 50, 51)):
        write = history.begin("a", value, start)
        write.ended, write.acknowledged = end, True
    with pytest.raises(AssertionError, match=complaint):
        history.require_readable(seen, began, began + 1)
    history.require_readable({"a": "2"}, began, began + 1)
    history.require_readable({"a": "3"}, began, began + 1)
    history.require_readable({"a": "1"}, 3.5, 3.6)
