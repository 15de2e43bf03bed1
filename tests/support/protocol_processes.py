"""Processes that write, read and commit on one branch of a shared store with a journal each; importable for spawned
children.

A journal is a file of JSON lines, written before and after every call, so a killed process leaves its begun calls.
Times are of the monotonic clock, shared by all processes of a machine.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from dredge.errors import ConflictError, NotFoundError, UnavailableError
from dredge.kv import Store, open_store
from dredge.storage import open_writer
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.errors import NoChangesError, RepositoryInDeletionError
from lakefs_embedded.refs.life_cycle import LifeCycle
from tests.support.overlaps import NEVER, History, listing, log_ids, stage

REPOSITORY = "lake"
START_SECONDS_MAX = 120.0
"""Until all processes have started; two or three on an idle machine."""
REFUSALS = (ConflictError, NotFoundError, UnavailableError, NoChangesError, RepositoryInDeletionError)
PATHS = [f"p{number}" for number in range(6)]


def open_catalog(store: Store, life_cycle: LifeCycle = "lakefs") -> Catalog:
    """A server of a new process."""
    settings = Settings(commit_tries=40, write_tries=20, life_cycle=life_cycle)
    return Catalog(store, open_writer, lambda: datetime.now(UTC), settings)


class Journal:
    """Notes calls and their outcomes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._calls = 0

    def begin(self, kind: str, **what: Any) -> int:
        self._calls += 1
        self._note({"call": self._calls, "kind": kind, "began": time.monotonic()} | what)
        return self._calls

    def end(self, call: int, **outcome: Any) -> None:
        self._note({"call": call, "ended": time.monotonic()} | outcome)

    def _note(self, line: dict[str, Any]) -> None:
        os.write(self._file, json.dumps(line).encode() + b"\n")


def work(url: str, journal_path: str, name: str, start: Barrier, seconds: float) -> None:
    """Do random operations until the time is up."""
    lot = random.Random(name)
    journal = Journal(journal_path)
    with open_store(url) as store:
        catalog = open_catalog(store)
        start.wait(START_SECONDS_MAX)
        number, ends_at = 0, time.monotonic() + seconds
        while time.monotonic() < ends_at:
            number += 1
            what = lot.choices(("write", "delete", "read", "list", "commit"), (8, 2, 4, 2, 3))[0]
            path = lot.choice(PATHS)
            value = f"{name}-{number}" if what == "write" else None
            call = journal.begin(what, path=path, value=value)
            try:
                journal.end(call, ok=True, **_do(catalog, what, path, value, f"{name}-{number}"))
            except UnavailableError as error:
                journal.end(call, ok=False, error=type(error).__name__)
        catalog.close()


def _do(catalog: Catalog, what: str, path: str, value: str | None, message: str) -> dict[str, Any]:
    if what == "write":
        assert value is not None
        stage(catalog, REPOSITORY, path, value)
        return {}
    if what == "delete":
        catalog.objects.delete_object(REPOSITORY, "main", path)
        return {}
    if what == "read":
        try:
            return {"seen": {path: catalog.reading.stat(REPOSITORY, "main", path).checksum}}
        except NotFoundError:
            return {"seen": {path: None}}
    if what == "list":
        return {"seen": dict.fromkeys(PATHS) | listing(catalog, REPOSITORY)}
    try:
        return {"commit": catalog.commits.commit(REPOSITORY, "main", committer="t", message=message).id}
    except NoChangesError:  # another commit took all: it is in the head
        return {"seen": dict.fromkeys(PATHS) | listing(catalog, REPOSITORY, "main@")}


def calls(folder: Path) -> Iterator[dict[str, Any]]:
    """Every call of all journals, with its outcome if known."""
    for path in sorted(folder.glob("*.journal")):
        found: dict[int, dict[str, Any]] = {}
        for line in path.read_bytes().split(b"\n")[:-1]:
            note = json.loads(line)
            found.setdefault(note["call"], {"ended": NEVER, "ok": False}).update(note)
        yield from found.values()


def check(catalog: Catalog, folder: Path) -> dict[str, int]:
    """Check all journals and the final state against the promises; returns the numbers of checked calls."""
    found = list(calls(folder))
    history = History(PATHS)
    for call in found:
        if call["kind"] in ("write", "delete"):
            write = history.begin(call["path"], call["value"], call["began"])
            write.ended, write.acknowledged = call["ended"], call["ok"]
    log = set(log_ids(catalog, REPOSITORY))
    commits = [call for call in found if call.get("commit")]
    for call in found:
        if call.get("seen"):
            history.require_readable(call["seen"], call["began"], call["ended"])
        if call.get("commit"):
            assert call["commit"] in log, "an acknowledged commit is not in history"
            tree = listing(catalog, REPOSITORY, call["commit"])
            history.require_listing(tree, call["began"], call["ended"])
    assert len({call["commit"] for call in commits}) == len(commits)
    now = time.monotonic()
    history.require_listing(listing(catalog, REPOSITORY), now, NEVER)
    last = catalog.commits.commit(REPOSITORY, "main", committer="t", message="last", allow_empty=True)
    history.require_listing(listing(catalog, REPOSITORY, last.id), now, NEVER)
    assert catalog.branches.get_branch(REPOSITORY, "main").sealed_tokens == ()
    return {
        "calls": len(found),
        "commits": len(commits),
        "reads": sum("seen" in call for call in found),
        "failed": sum("error" in call for call in found),
        "unfinished": sum(call["ended"] == NEVER for call in found),
    }


def live(url: str, journal_path: str, name: str, start: Barrier, seconds: float, namespaces: str) -> None:
    """Create, use and delete one repository name again and again, in step 2 of the design."""
    journal = Journal(journal_path)
    with open_store(url) as store:
        catalog = open_catalog(store, "step-2")
        start.wait(START_SECONDS_MAX)
        number, ends_at = 0, time.monotonic() + seconds
        while time.monotonic() < ends_at:
            number += 1
            for what in ("create", "use", "delete"):
                call = journal.begin(what)
                try:
                    if what == "create":
                        made = catalog.repositories.create_repository(
                            REPOSITORY, f"{namespaces}/{name}-{number}"
                        )
                        outcome: dict[str, Any] = {"partition": made.partition.decode()}
                    elif what == "use":
                        stage(catalog, REPOSITORY, "path", name)
                        outcome = {
                            "id": catalog.commits.commit(REPOSITORY, "main", committer="t", message=name).id
                        }
                    else:
                        catalog.repositories.delete_repository(REPOSITORY)
                        outcome = {}
                    journal.end(call, ok=True, **outcome)
                except REFUSALS as error:
                    journal.end(call, ok=False, error=type(error).__name__)
        catalog.close()
