"""Clients' calls on a repository: the moves of writers, each a request (or a few) to some server.

A move's arguments are plain values with a meaning in any state: branches and paths by name, commits by number ("the
n-th by id"), addresses by number ("the n-th ever made"). Refused calls have no effect.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from dredge.errors import ConflictError, NotFoundError
from dredge.storage import open_reader, open_writer
from dredge.storage.model import ObjectReader
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.catalog import Rules as CatalogRules
from lakefs_embedded.catalog.imports import ImportPath
from tests.simulation.clock import DAY, HOUR, instant
from tests.simulation.history import Client
from tests.simulation.scheduler import Scheduler

BRANCHES = ("main", "one", "two", "hidden")
PATHS = ("a", "b", "dir/c", "dir/d", "e")
CONTENTS = (b"", b"x", b"y", b"zz")
IMPORTED = "memory://outside/import"
OLDEST = 1000
"""A commit's number from here on counts by age, the oldest first; smaller ones count by id."""

type Draw = Callable[[random.Random], tuple[Any, ...]]


def _branch(chance: random.Random) -> str:
    return chance.choice(BRANCHES)


def _path(chance: random.Random) -> str:
    return chance.choice(PATHS)


def _content(chance: random.Random) -> bytes:
    return chance.choice(CONTENTS)


def _number(chance: random.Random) -> int:
    return chance.choice((chance.randrange(40), OLDEST + chance.randrange(6)))


def _hours(chance: random.Random) -> float:
    return round(chance.choice((0.0, 0.01, 0.3, 5.0, 20.0, 23.0, 30.0)), 2)


def _each(*draws: Callable[[random.Random], Any]) -> Draw:
    return lambda chance: tuple(draw(chance) for draw in draws)


def _one_of(*values: Any) -> Callable[[random.Random], Any]:
    return lambda chance: chance.choice(values)


DRAWS: dict[str, tuple[int, Draw]] = {
    "upload": (8, _each(_branch, _path, _content)),
    "upload the same": (4, _each(_branch, _path)),
    "overwrite": (2, _each(_branch, _path, _content, _content)),
    "multipart": (2, _each(_branch, _path, _content, _hours)),
    "link": (3, _each(_branch, _path, _content, _hours, _hours, _one_of(True, True, False))),
    "hand out": (1, _each(_branch, _path, _content)),
    "link the last": (1, _each(_number)),
    "begin parts": (1, _each(_branch, _path, _content)),
    "complete parts": (1, _each(_number)),
    "put at upload": (1, _each(_number, _content)),
    "stage": (3, _each(_branch, _path, _number)),
    "stage alike": (2, _each(_branch, _path)),
    "orphan": (2, _each(_content)),
    "copy": (3, _each(_branch, _path, _path, _branch)),
    "metadata": (3, _each(_branch, _path)),
    "delete": (4, _each(_branch, _path)),
    "commit": (8, _each(_branch, _one_of(0, 0, 0, 40))),
    "merge": (4, _each(_branch, _branch, _one_of("", "dest-wins", "source-wins"))),
    "ingest": (1, _each(_branch)),
    "revert": (2, _each(_branch, _number)),
    "cherry-pick": (2, _each(_branch, _number)),
    "hard reset": (3, _each(_branch, _number)),
    "reset": (3, _each(_branch)),
    "reset path": (2, _each(_branch, _path)),
    "create branch": (5, _each(_branch, _branch)),
    "create branch from commit": (4, _each(_branch, _number)),
    "delete branch": (5, _each(_branch)),
    "carry": (1, _each(_branch, _path, _number, _one_of(0.0, 0.0003, 0.3))),
    "carry over": (1, _each(_branch, _branch, _path, _one_of(-1, -1, OLDEST + 1))),
    "leave behind": (1, _each(_branch, _branch, _path, _number, _one_of(True, False))),
    "take from tag": (1, _each(_branch, _path, _number)),
    "re-create branch": (3, _each(_branch, _number, _hours)),
    "tag": (2, _each(_number)),
    "tag head": (1, _each(_branch)),
    "untag": (1, _each(_number)),
    "import": (1, _each(_branch, _content)),
    "rules": (2, _each(_one_of(None, 1, 1, 5, 30), _one_of(0, 1, 2))),
}
"""Every kind of move: its frequency, and the drawing of its arguments."""
VERBS = tuple(DRAWS)


@dataclass
class Writer(Client):
    scheduler: Scheduler  # gives the time
    repository: str  # its name
    namespace: str  # its URI
    # calls a server's catalog and returns the result
    serve: Callable[[Callable[[Catalog], Any]], Any]
    # called with each physical address acknowledged by a server
    acknowledged: Callable[[str, str], None]
    # called with each commit of a server, and the time of its request
    committed: Callable[[str, float], None]
    brought_back: Callable[[str, float], None]  # the same for commits of what other commits have
    made: list[str] = field(default_factory=list)  # every address so far, relative to the namespace
    # addresses that were handed out and uploaded to, with their branch, path and size
    handed: list[tuple[str, str, str, int]] = field(default_factory=list)
    # uploads in parts that were begun: branch, path, id, and the ETag of their only part
    uploads: list[tuple[str, str, str, str]] = field(default_factory=list)
    orphans: int = 0  # objects that no server knows of
    serial: int = 0  # objects that were ingested

    def _pass(self, hours: float) -> None:
        if self.scheduler.current is None:
            self.scheduler.now += hours * HOUR
        else:
            self.scheduler.wait(hours * HOUR)

    def _keep(self, verb: str, physical: str) -> None:
        address = physical.removeprefix(self.namespace + "/")
        if address not in self.made:
            self.made.append(address)
        self.acknowledged(verb, address)

    def _commit_id(self, number: int) -> str:
        commits = self.serve(
            lambda catalog: list(catalog.refs.commits.all(catalog.refs.repositories.get(self.repository)))
        )
        if number >= OLDEST:
            commits.sort(key=lambda commit: (commit.creation_date, commit.id))
            number -= OLDEST
        return str(commits[number % len(commits)].id)

    def _upload(self, branch: str, path: str, content: bytes) -> None:
        stats = self.serve(
            lambda catalog: catalog.objects.upload_object(self.repository, branch, path, content)
        )
        self._keep("upload", stats.physical_address)

    def _upload_the_same(self, branch: str, path: str) -> None:
        content = self.serve(
            lambda catalog: catalog.reading.get_object(self.repository, branch, path).read(0, None)
        )
        self._upload(branch, path, content)

    def _overwrite(self, branch: str, path: str, first: bytes, second: bytes) -> None:
        self._upload(branch, path, first)
        self._upload(branch, path, second)

    def _multipart(self, branch: str, path: str, content: bytes, hours: float) -> None:
        self._begin_parts(branch, path, content)
        self._pass(hours)
        self._complete_parts(-1)

    def _begin_parts(self, branch: str, path: str, content: bytes) -> None:
        upload = self.serve(
            lambda catalog: catalog.multiparts.create_multipart(
                self.repository, branch, path, content_type="text/plain"
            )
        )
        part = self.serve(
            lambda catalog: catalog.multiparts.put_multipart_part(
                self.repository, branch, path, upload, 1, [content]
            )
        )
        self.uploads.append((branch, path, upload, part.etag))

    def _complete_parts(self, number: int) -> None:
        if not self.uploads:
            return
        branch, path, upload, etag = self.uploads[number % len(self.uploads)]
        stats, _ = self.serve(
            lambda catalog: catalog.multiparts.complete_multipart(
                self.repository, branch, path, upload, [(1, etag)]
            )
        )
        self._keep("multipart", stats.physical_address)

    def _put_at_upload(self, number: int, content: bytes) -> None:
        if self.uploads:
            _, _, wanted, _ = self.uploads[number % len(self.uploads)]
            opened = open_writer(self.namespace).uploads().opened(wanted)
            if opened is not None:
                with suppress(ConflictError):
                    open_writer(self.namespace).put_if_absent(opened[0], content)

    def _link(
        self, branch: str, path: str, content: bytes, upload_hours: float, link_hours: float, linked: bool
    ) -> None:
        handed = self._get_address(branch, path)
        self._pass(upload_hours)
        self._put(handed[2], content)
        if linked:
            self._pass(link_hours)
            self._link_address(*handed, size=len(content))

    def _hand_out(self, branch: str, path: str, content: bytes) -> None:
        handed = self._get_address(branch, path)
        self._put(handed[2], content)
        self.handed.append((*handed, len(content)))

    def _link_the_last(self, number: int) -> None:
        if self.handed:
            branch, path, physical, size = self.handed[number % len(self.handed)]
            self._link_address(branch, path, physical, size)

    def _get_address(self, branch: str, path: str) -> tuple[str, str, str]:
        physical = self.serve(
            lambda catalog: catalog.addresses.get_physical_address(self.repository, branch, path)
        )
        return branch, path, physical

    def _put(self, physical: str, content: bytes) -> None:
        address = physical.removeprefix(self.namespace + "/")
        open_writer(self.namespace).put(address, content)
        self.made.append(address)

    def _link_address(self, branch: str, path: str, physical: str, size: int) -> None:
        # What a client claims looks like an MD5, and is none.
        self.serve(
            lambda catalog: catalog.addresses.link_physical_address(
                self.repository, branch, path, physical_address=physical, checksum="c" * 32, size_bytes=size
            )
        )
        self._keep("link", physical)

    def _stage(self, branch: str, path: str, number: int) -> None:
        if not self.made:
            return
        address = self.made[number % len(self.made)]
        size = open_reader(self.namespace).stat(address).size
        self.serve(
            lambda catalog: catalog.objects.stage_object(
                self.repository,
                branch,
                path,
                physical_address=f"{self.namespace}/{address}",
                checksum="c",
                size_bytes=size,
            )
        )

    def _stage_alike(self, branch: str, path: str) -> None:
        there = self.serve(lambda catalog: catalog.reading.stat(self.repository, branch, path))
        reader = open_reader(self.namespace)
        data = self._read(reader, there.physical_address.removeprefix(self.namespace + "/"))
        for address in self.made:
            if there.physical_address.endswith(address) or self._read(reader, address) != data:
                continue
            self.serve(
                lambda catalog, address=address: catalog.objects.stage_object(  # type: ignore[misc]
                    self.repository,
                    branch,
                    path,
                    physical_address=f"{self.namespace}/{address}",
                    checksum=there.checksum,
                    size_bytes=there.size_bytes,
                    metadata=there.metadata,
                    content_type=there.content_type,
                )
            )
            return

    def _read(self, reader: ObjectReader, address: str) -> bytes | None:
        try:
            return reader.get(address)
        except NotFoundError:
            return None

    def _orphan(self, content: bytes) -> None:
        address = f"data/orphans/{self.orphans}-{int(self.scheduler.now)}"
        self.orphans += 1  # before any other commit
        open_writer(self.namespace).put(address, content)
        self.made.append(address)

    def _copy(self, branch: str, path: str, source: str, source_branch: str) -> None:
        stats = self.serve(
            lambda catalog: catalog.objects.copy_object(
                self.repository, branch, path, source, source_ref=source_branch
            )
        )
        self.made.append(stats.physical_address.removeprefix(self.namespace + "/"))

    def _metadata(self, branch: str, path: str) -> None:
        value = {"k": f"{int(self.scheduler.now)}"}
        self.serve(lambda catalog: catalog.objects.update_user_metadata(self.repository, branch, path, value))

    def _delete(self, branch: str, path: str) -> None:
        self.serve(lambda catalog: catalog.objects.delete_object(self.repository, branch, path))

    def _commit(self, branch: str, days_back: int) -> str:
        date = instant(self.scheduler.now - days_back * DAY) if days_back else None
        began = self.scheduler.now
        message = f"at {began:.0f}"
        commit = self.serve(
            lambda catalog: catalog.commits.commit(
                self.repository, branch, committer="writer", message=message, date=date
            )
        )
        self.committed(commit.id, began)
        return str(commit.id)

    def _ingest(self, branch: str) -> None:
        self.serial += 1
        self._upload(branch, f"in/{self.serial}", bytes(300 + self.serial % 500))
        self._commit(branch, 0)

    def _merge(self, source: str, destination: str, strategy: str) -> None:
        self.serve(
            lambda catalog: catalog.merges.merge(
                self.repository, source, destination, committer="writer", strategy=strategy
            )
        )

    def _revert(self, branch: str, number: int) -> None:
        commit, began = self._commit_id(number), self.scheduler.now
        made = self.serve(
            lambda catalog: catalog.merges.revert(
                self.repository, branch, commit, parent_number=1, committer="writer"
            )
        )
        self.brought_back(made.id, began)

    def _cherry_pick(self, branch: str, number: int) -> None:
        commit, began = self._commit_id(number), self.scheduler.now
        made = self.serve(
            lambda catalog: catalog.merges.cherry_pick(self.repository, branch, commit, committer="writer")
        )
        self.brought_back(made.id, began)

    def _hard_reset(self, branch: str, number: int) -> None:
        commit = self._commit_id(number)
        self.serve(lambda catalog: catalog.branches.hard_reset(self.repository, branch, commit))

    def _reset(self, branch: str) -> None:
        self.serve(lambda catalog: catalog.branches.reset_branch(self.repository, branch))

    def _reset_path(self, branch: str, path: str) -> None:
        self.serve(
            lambda catalog: catalog.branches.reset_branch(self.repository, branch, kind="object", path=path)
        )

    def _create_branch(self, branch: str, source: str) -> None:
        self.serve(
            lambda catalog: catalog.branches.create_branch(
                self.repository, branch, source, hidden=branch == "hidden"
            )
        )

    def _create_branch_from_commit(self, branch: str, number: int) -> None:
        self._create_branch(branch, self._commit_id(number))

    def _delete_branch(self, branch: str) -> None:
        self.serve(lambda catalog: catalog.branches.delete_branch(self.repository, branch))

    def _re_create_branch(self, branch: str, number: int, hours: float) -> None:
        self._delete_branch(branch)
        self._pass(min(hours, 1.0))
        self._create_branch_from_commit(branch, number)

    def _carry(self, branch: str, path: str, number: int, hours: float) -> None:
        self._commit(branch, 40)
        self._pass(hours)
        self._metadata(branch, path)
        self._hard_reset(branch, number)

    def _carry_over(self, source: str, target: str, path: str, number: int) -> None:
        commit = self._commit(source, 40) if number < 0 else self._commit_id(number)
        self.serve(lambda catalog: catalog.branches.hard_reset(self.repository, target, commit))
        self._metadata(target, path)
        for branch in (target, source):
            self._hard_reset(branch, OLDEST)

    def _leave_behind(self, source: str, target: str, path: str, number: int, tagged: bool) -> None:
        self._hard_reset(target, number)
        self._upload(target, f"{path}-beside", b"x")
        commit = self._commit(target, 40 if tagged else 0)
        if tagged:
            self.serve(lambda catalog: catalog.tags.create_tag(self.repository, f"left-{commit[:8]}", commit))
        self._hard_reset(target, OLDEST)
        self._reset_path(source, path)

    def _take_from_tag(self, branch: str, path: str, number: int) -> None:
        self._hard_reset(branch, number)
        self._metadata(branch, path)
        self._hard_reset(branch, OLDEST)
        self._untag(number)

    def _tag(self, number: int) -> None:
        commit = self._commit_id(number)
        self.serve(lambda catalog: catalog.tags.create_tag(self.repository, f"t{number}", commit))

    def _tag_head(self, branch: str) -> None:
        self.serve(lambda catalog: catalog.tags.create_tag(self.repository, f"head-of-{branch}", branch))

    def _untag(self, number: int) -> None:
        self.serve(lambda catalog: catalog.tags.delete_tag(self.repository, f"t{number}"))

    def _import(self, branch: str, content: bytes) -> None:
        open_writer(IMPORTED).put("one", content)
        path = ImportPath("common_prefix", f"{IMPORTED}/", "imported/")
        self.serve(
            lambda catalog: catalog.imports.import_start(
                self.repository, branch, [path], open_reader, committer="writer"
            )
        )

    def _rules(self, days: int | None, factor: int) -> None:
        if days is None:
            self.serve(lambda catalog: catalog.garbage.delete_gc_rules(self.repository))
        else:
            rules = CatalogRules(days, {"two": days * factor} if factor else {})
            self.serve(lambda catalog: catalog.garbage.set_gc_rules(self.repository, rules))
