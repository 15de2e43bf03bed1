"""Whole collections in memory: a lake, a client of its catalog, and runs with all doors injected.

world = make_world()
world.upload("a", b"1")
world.age(days=2)
report = world.collect()
assert world.data() == …
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from dredge.errors import NotFoundError, RefusedError
from dredge.gc.config import GCConfig
from dredge.gc.pending.known import find_list
from dredge.gc.planning import plan_run
from dredge.gc.run import Run
from dredge.gc.steps import (
    check_limits,
    list_committed,
    mark_uncommitted,
    slice_listing,
    subtract,
    to_its_end,
)
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs import (
    Change,
    Commit,
    CommitText,
    Environment,
    ObjectStats,
    PreparedCommits,
    Ref,
    Repository,
    Rules,
    UncommittedPage,
    Usage,
)
from dredge.lakefs.files.addresses import reworded
from dredge.runs.folder import RunFolder
from dredge.runs.payload import StepSummary, from_json
from dredge.runs.tasks import LocalRunner, TaskRunner
from dredge.storage import DeleteOutcome
from dredge.storage.model import MaySend, always
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.catalog import Rules as CatalogRules
from lakefs_embedded.committed.entries import Entry
from lakefs_embedded.server.usage import Usage as Counter
from lakefs_embedded.staging.area import Staged
from tests.support.folder_store import LocalDeleter
from tests.support.lakes import Lake, make_lake, with_settings
from tests.support.memory_store import MemoryDeleter
from tests.support.stand_ins import standing_in

PAGE = 1000


class CatalogClient:
    """The calls of `dredge.lakefs.LakeFSClient` answered by a catalog in this process."""

    def __init__(self, catalog: Catalog, url: str = "http://lakefs:8000") -> None:
        self.catalog = catalog
        self.url = url
        self.may_update = True
        self.before: Callable[[str, tuple[Any, ...]], None] = lambda _name, _arguments: None

    def clock(self) -> datetime | None:
        self.before("clock", ())
        return self.catalog.clock().replace(microsecond=0)

    def repositories(self) -> list[Repository]:
        self.before("repositories", ())
        return [
            _repository(found) for found in self.catalog.repositories.list_repositories(amount=PAGE).results
        ]

    def repository(self, name: str) -> Repository:
        self.before("repository", (name,))
        return _repository(self.catalog.repositories.get_repository(name))

    def branches(self, repository: str) -> list[Ref]:
        self.before("branches", (repository,))
        found = self.catalog.branches.list_branches(repository, amount=PAGE, show_hidden=True).results
        return [Ref(branch.name, branch.commit_id) for branch in found]

    def tags(self, repository: str) -> list[Ref]:
        self.before("tags", (repository,))
        return [
            Ref(tag.name, tag.commit_id)
            for tag in self.catalog.tags.list_tags(repository, amount=PAGE).results
        ]

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        self.before("log", (repository, ref))
        return (_commit(found) for found in self.catalog.commits.log(repository, ref, amount=PAGE).results)

    def commit(self, repository: str, commit_id: str) -> Commit:
        self.before("commit", (repository, commit_id))
        return _commit(self.catalog.commits.get_commit(repository, commit_id))

    def rules(self, repository: str) -> Rules | None:
        self.before("rules", (repository,))
        try:
            found = self.catalog.garbage.get_gc_rules(repository)
        except NotFoundError:
            return None
        return Rules(found.default_days, found.branch_days)

    def prepare_uncommitted(self, repository: str, token: str | None) -> UncommittedPage:
        self.before("prepare_uncommitted", (repository, token))
        page = self.catalog.garbage.prepare_uncommitted(repository, token)
        return UncommittedPage(page.run_id, page.location, page.continuation_token)

    def prepare_commits(self, repository: str, deadline_seconds: float) -> PreparedCommits | None:
        self.before("prepare_commits", (repository,))
        try:
            found = self.catalog.garbage.prepare_commits(repository)
        except NotFoundError as error:
            if str(error) == "get gc rules: not found":
                return None
            raise RefusedError(str(error)) from None
        return PreparedCommits(found.run_id, found.commits_location)

    def usage(self) -> Usage | None:
        self.before("usage", ())
        counter = Counter(self.catalog.refs.commits._kv, self.catalog.clock)
        counter.count()
        return Usage(counter.installation_id, sum(count for *_, count in counter.months()))

    def environment(self) -> Environment:
        self.before("environment", ())
        return Environment(
            self.url, Counter(self.catalog.refs.commits._kv, self.catalog.clock).installation_id
        )

    def metadata(self, repository: str) -> Mapping[str, str] | None:
        self.before("metadata", (repository,))
        return self.catalog.repositories.get_repository_metadata(repository)

    def set_metadata(self, repository: str, values: Mapping[str, str]) -> bool:
        self.before("set_metadata", (repository, values))
        if self.may_update:
            self.catalog.repositories.update_repository_metadata(repository, put=values)
        return self.may_update

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        self.before("stat", (repository, ref, path))
        return _stats(self.catalog.reading.stat(repository, ref, path))

    def objects(self, repository: str, ref: str, after: str = "", amount: int = PAGE) -> list[ObjectStats]:
        self.before("objects", (repository, ref, after))
        page = self.catalog.reading.list_entries(repository, ref, after=after, amount=amount)
        return [_stats(found) for found in page.results]

    def objects_page(
        self, repository: str, ref: str, after: str = "", amount: int = PAGE
    ) -> tuple[list[ObjectStats], bool]:
        self.before("objects_page", (repository, ref, after))
        page = self.catalog.reading.list_entries(repository, ref, after=after, amount=amount)
        return [_stats(found) for found in page.results], page.has_more

    def changes(self, repository: str, branch: str, amount: int = 100, after: str = "") -> list[Change]:
        self.before("changes", (repository, branch))
        page = self.catalog.branches.diff_branch(repository, branch, amount=amount, after=after)
        return [Change(found.path, found.type) for found in page.results]


def _repository(found: Any) -> Repository:
    return Repository(
        found.name,
        found.storage_namespace,
        found.default_branch,
        found.read_only,
        found.creation_date.replace(microsecond=0),
    )


def _commit(found: Any) -> Commit:
    text = CommitText(found.committer, found.message, found.metadata, found.generation)
    return Commit(found.id, found.parents, found.creation_date, found.metarange_id, found.version, text)


def _stats(found: Any) -> ObjectStats:
    # As a real server words it: decoded, and without a query.
    return ObjectStats(found.path, reworded(found.physical_address), found.checksum, found.size_bytes)


class Parallel(LocalRunner):
    """Runs tasks in this process one after the other, but claims to be parallel."""

    @property
    def default_parallelism(self) -> int:
        return 3


@dataclass
class World:
    lake: Lake
    client: CatalogClient
    runner: TaskRunner = field(default_factory=LocalRunner)
    settings: dict[str, Any] = field(default_factory=dict)

    def plan(self, **settings: Any) -> Run:
        """Plan a deleting run, clean by default; settings are those of `GCConfig`."""
        usual = {
            "repository": self.lake.repository,
            "dry_run": False,
            "mode": "clean",
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
        }
        wanted = {**usual, **self.settings, **settings}
        # Only tests of the cost of objects count it.
        wanted["tuning"] = {"report_names_max": 0, **wanted.get("tuning", {})}
        plan = plan_run(from_json(GCConfig, wanted), None, self.client, None, self.lake.clock)
        return Run.open(plan.run_uri, None, self.client, self.lake.clock)

    def mark(self, context: Run) -> None:
        """Do every step of a planned run up to the guards."""
        for step in (slice_listing, mark_uncommitted, list_committed, subtract, check_limits):
            step(context, self.runner)

    def run(self, context: Run) -> StepSummary:
        """Do every step of a planned run, and release the lease, unless it waits for an answer."""
        return to_its_end(context, self.runner)

    def collect(self, **settings: Any) -> StepSummary:
        return self.run(self.plan(**settings))

    def collect_after(self, **parts: float) -> StepSummary:
        """Let time pass, then plan a run and do it."""
        self.age(**parts)
        return self.collect()

    def collected(self, **settings: Any) -> Run:
        run = self.plan(**settings)
        self.run(run)
        return run

    def marked(self, **settings: Any) -> Run:
        run = self.plan(**settings)
        self.mark(run)
        return run

    def data(self) -> set[str]:
        return set(self.lake.keys("data/"))

    def upload(self, path: str, content: bytes = b"content", branch: str = "main", **more: Any) -> str:
        return self.lake.address(self.lake.upload(path, content, branch, **more))

    def commit(self, path: str, content: bytes = b"content", branch: str = "main") -> str:
        """Upload an object and commit it; return its address."""
        address = self.upload(path, content, branch)
        self.lake.commit(branch=branch)
        return address

    def orphan(self, name: str, content: bytes = b"orphan") -> str:
        self.lake.objects.put(name, content)
        return name

    def age(self, **parts: float) -> datetime:
        """Let time pass; arguments as for timedelta."""
        return self.lake.clock.advance(**parts)

    def rules(self, days: int = 30, **branches: int) -> None:
        self.lake.catalog.garbage.set_gc_rules(self.lake.repository, CatalogRules(days, branches))

    def served(self, branch: str = "main") -> dict[str, str]:
        return {stats.path: self.lake.address(stats) for stats in self.lake.listing(branch)}

    def assert_readable(self, branch: str = "main") -> None:
        for path in self.lake.paths(branch):
            self.lake.read(path, branch)

    @contextmanager
    def during(self, name: str, action: Callable[[], None], times: int = 1) -> Iterator[None]:
        """Run a callable right before a call of the client, the first times it is made."""
        left = [times]

        def before(called: str, _arguments: tuple[Any, ...]) -> None:
            if called == name and left[0]:
                left[0] -= 1
                action()

        self.client.before = before
        try:
            yield
        finally:
            self.client.before = lambda _name, _arguments: None


def make_world(*, rules: int | None = None, **settings: Any) -> World:
    """Make a lake with one repository, without rules or with days of its default rule, a stopped clock, and deleting
    runs."""
    lake = make_lake()
    client = CatalogClient(lake.catalog)
    client.environment()  # a real server has its installation id from its setup on, and so has a copy of it
    world = World(lake, client, settings=settings)
    if rules is not None:
        world.rules(rules)
    return world


def summary_of(context: Run, step: str) -> StepSummary:
    summary = context.folder.read_summary(step)
    assert summary is not None, step
    return summary


def pending_rows(context: Run) -> dict[str, dict[str, Any]]:
    created = context.client.repository(context.plan.repository).created_at
    stored = find_list(context.state, context.plan.namespace, created, context.store_now())
    assert stored.pending is not None, stored.problem
    tables = RunFolder(context.state, "list").read_parts(stored.pending.parts.values())
    return {row["address"]: row for table in tables for row in table.to_pylist()}


def candidates(context: Run) -> set[str]:
    """Addresses of the candidates of a run, including held ones."""
    parts = SubtractOutput.of(summary_of(context, "subtract")).candidates
    return {address for rows in context.folder.read_parts(parts) for address in rows["address"].to_pylist()}


def seen_with(world: World, **changes: object) -> World:
    world.lake = with_settings(world.lake, **changes)
    world.client = CatalogClient(world.lake.catalog)
    return world


def stage_again(
    world: World, address: str, path: str = "again", size_bytes: int = 6, branch: str = "main"
) -> None:
    """Stage an existing object (StageObject checks no age and no permission)."""
    world.lake.catalog.objects.stage_object(
        world.lake.repository,
        branch,
        path,
        physical_address=f"{world.lake.namespace}/{address}",
        checksum="c",
        size_bytes=size_bytes,
    )


def stage_entry(world: World, path: str, entry: Entry) -> None:
    catalog = world.lake.catalog
    token = catalog.branches.get_branch(world.lake.repository, "main").staging_token
    catalog.staging.areas.put(token, Staged(path.encode(), entry.value()))


def busy_world(**settings: object) -> tuple[World, set[str], set[str]]:
    """Objects of every kind, to keep and to delete."""
    world = make_world(tuning={"delete_keys": 2, "candidate_rows": 3}, **settings)
    world.rules(30)
    kept = {world.upload(f"a{number}", b"%d" % number) for number in range(4)}
    world.lake.commit()
    kept |= {world.upload(f"s{number}", b"staged %d" % number) for number in range(3)}
    kept.add(world.upload("a0", b"0"))  # the same bytes again
    gone = {world.orphan(f"data/slice{number % 2}/orphan{number}", b"x%d" % number) for number in range(7)}
    world.age(days=2)
    return world, kept, gone


@dataclass
class Requests:
    # called with the number of the request (from 1) and its keys; may raise
    before: Callable[[int, Sequence[str]], None] = lambda _number, _keys: None
    # the outcome of a key instead of deleting it, or None
    answer: Callable[[str], DeleteOutcome | None] = lambda _key: None
    made: list[list[str]] = field(default_factory=list)  # keys of each request


@contextmanager
def deleting(**watch: Any) -> Iterator[Requests]:
    """Intercept the sweep's deleters; arguments as for `Requests`."""
    requests = Requests(**watch)

    def delete(
        honest: Callable[..., list[DeleteOutcome]],
        deleter: MemoryDeleter | LocalDeleter,
        keys: Sequence[str],
        may_send: MaySend = always,
    ) -> list[DeleteOutcome]:
        if "/_lakefs/" in deleter.uri or deleter.uri.endswith("/_dredge"):  # one of own files
            return honest(deleter, keys, may_send)
        requests.made.append(list(keys))
        requests.before(len(requests.made), keys)
        answers = {key: found for key in keys if (found := requests.answer(key)) is not None}
        rest = [key for key in keys if key not in answers]
        answers |= {outcome.key: outcome for outcome in honest(deleter, rest, may_send)}
        return [answers[key] for key in keys]

    with standing_in(MemoryDeleter.delete, delete), standing_in(LocalDeleter.delete, delete):
        yield requests
