"""API calls of garbage collection: its rules, and the commits active by them, as the server computes them.

The server stops a walk at a commit visited before with a threshold not later than its own, and checks this *before* it
marks the commit: a commit first reached from an old child is not marked when a young child leads to it later (L19).
Here the mark comes first; the defect `active_walk_early_stop` has the server's order.

An empty rules file means "no rules", and so do rules with an empty message: default 0 and no branches (L29).

Source: lakeFS pkg/graveler/retention/active_commits.go, garbage_collection_manager.go (behaviour only).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dredge.errors import NotFoundError
from dredge.lakefs.files import messages
from dredge.lakefs.files.records import COMMITS, Branch, Repository, uncommitted_key
from dredge.storage import ObjectReader, ObjectWriter
from dredge.xid import new_descending_xid, new_xid
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs, Settings
from lakefs_embedded.catalog.results import PreparedCommits, PreparedUncommitted, PrepareStatus, SignedUrl
from lakefs_embedded.catalog.signing import SignedUrls
from lakefs_embedded.catalog.tasks import Status, Tasks
from lakefs_embedded.catalog.tracked import Copies
from lakefs_embedded.catalog.uncommitted import Mark, PageFile, UncommittedPage
from lakefs_embedded.errors import RulesNotFoundError
from lakefs_embedded.refs.records import Commit
from lakefs_embedded.staging.area import StagingAreas


@dataclass(eq=False)
class GarbageService:
    """Stores the rules, and prepares a run: active commits, uncommitted addresses."""

    _refs: Refs
    _areas: StagingAreas
    _namespaces: Namespaces
    _copies: Copies
    _signed_urls: SignedUrls
    _tasks: Tasks
    _clock: Clock
    _settings: Settings

    def get_gc_rules(self, repository: str) -> Rules:
        """Read the rules."""
        rules = read_rules(self._namespaces.of(self._refs.repositories.get(repository)).objects)
        if rules is None:
            raise RulesNotFoundError
        return rules

    def set_gc_rules(self, repository: str, rules: Rules) -> None:
        """Replace the rules."""
        write_rules(self._namespaces.of(self._refs.repositories.writable(repository)).objects, rules)

    def delete_gc_rules(self, repository: str) -> None:
        """Remove the rules (an empty file stays)."""
        delete_rules(self._namespaces.of(self._refs.repositories.writable(repository)).objects)

    def prepare_commits(self, repository: str) -> PreparedCommits:
        """Write the active commits to a CSV; raises RulesNotFoundError (404) without rules."""
        return self._prepare_commits(self._refs.repositories.writable(repository))

    def prepare_commits_async(self, repository: str) -> str:
        """Begin the same in the background, with or without rules. Returns the task id."""
        found = self._refs.repositories.writable(repository)

        def work(status: Status) -> None:
            result = self._prepare_commits(found)
            status.info.run_id = result.run_id
            status.info.gc_commits_location = result.commits_location
            status.info.gc_addresses_location = result.addresses_location

        return self._tasks.submit(found, work)

    def prepare_commits_status(self, repository: str, task_id: str) -> PrepareStatus:
        """The progress of `prepare_commits_async`. Unknown after 24 h."""
        found = self._refs.repositories.get(repository)
        status = self._tasks.get(found, task_id)
        task, info = status.task, status.info
        updated = messages.from_timestamp(task.updated_at)
        result = None
        if task.done and not task.error_msg:
            result = PreparedCommits(info.run_id, info.gc_commits_location, info.gc_addresses_location)
        return PrepareStatus(task_id, task.done, updated, result, task.error_msg or None)

    def presign_commits(self, repository: str, prepared: PreparedCommits) -> SignedUrl:
        """Sign a URL to read the CSV of active commits."""
        found = self._refs.repositories.get(repository)
        return self._signed_urls.read_key(found, commits_key(prepared.run_id))

    def presign_metadata(self, repository: str, key: str) -> SignedUrl:
        """Sign a URL to read a range or metarange."""
        found = self._refs.repositories.get(repository)
        return self._signed_urls.read_key(found, key, key.rpartition("/")[2])

    def prepare_uncommitted(
        self, repository: str, continuation_token: str | None = None
    ) -> PreparedUncommitted:
        """Write one page of the repository's uncommitted addresses; without a `continuation_token` a run starts."""
        found = self._refs.repositories.writable(repository)
        objects = self._namespaces.of(found).objects
        mark = Mark(new_descending_xid(self._clock()))
        if continuation_token:
            mark = Mark.decode(continuation_token)
        folder = uncommitted_key(mark.run_id)
        location = f"{found.storage_namespace.rstrip('/')}/{folder}"
        if continuation_token and self._settings.defect("repeated_token"):
            objects.put(folder + new_xid(self._clock()), PageFile(1).finish())
            return PreparedUncommitted(mark.run_id, location, continuation_token)
        page = UncommittedPage(
            self._refs.branches,
            self._refs.commits,
            self._areas,
            self._namespaces.of(found).ranges,
            self._copies,
            found,
            self._clock,
            self._settings,
        ).write(mark)
        following = None if page.next is None else page.next.encode()
        if page.data is None:
            return PreparedUncommitted(mark.run_id, "", following)
        if not self._settings.defect("page_missing"):
            objects.put(folder + new_xid(self._clock()), page.data)
        return PreparedUncommitted(mark.run_id, location, following)

    def _prepare_commits(self, repository: Repository) -> PreparedCommits:
        objects = self._namespaces.of(repository).objects
        rules = read_rules(objects)
        if rules is None:
            raise RulesNotFoundError("get gc rules: not found")
        now = self._clock()
        active = active_commits(
            self._refs.commits.all(repository),
            self._refs.branches.scan(repository),
            rules,
            now,
            find=lambda commit_id: self._refs.commits.get(repository, commit_id),
            early_stop=self._settings.defect("active_walk_early_stop"),
        )
        run_id = new_descending_xid(now)
        objects.put(commits_key(run_id), commits_csv(active.values()))
        uri = repository.storage_namespace.rstrip("/")
        return PreparedCommits(run_id, f"{uri}/{commits_key(run_id)}", f"{uri}/{ADDRESSES_KEY}")


RULES_KEY = "_lakefs/retention/gc/rules/config.json"
ADDRESSES_KEY = "_lakefs/retention/gc/addresses/"
_COLUMNS = ("commit_id", "expired", "metarange_id")


@dataclass(frozen=True, slots=True)
class Rules:
    """How many days commits stay active.

    Args:
        default_days: for branches without a rule and for commits without a branch; may be 0 or
            negative.
        branch_days: days by exact branch name; patterns are not supported.
    """

    default_days: int
    branch_days: Mapping[str, int] = field(default_factory=dict)

    def threshold(self, now: datetime, branch: str | None) -> datetime:
        """The cutoff for the commits of a line; strictly younger ones keep their parent active. `branch`: branch of the
        line's first commit, if it is a head; else None."""
        days = self.default_days if branch is None else self.branch_days.get(branch, self.default_days)
        try:
            return now - timedelta(days=days)
        except OverflowError:  # more days than a calendar holds
            return (datetime.min if days > 0 else datetime.max).replace(tzinfo=UTC)

    def encode(self) -> bytes:
        """Write the file's content."""
        return messages.encode(
            messages.GarbageCollectionRules(
                default_retention_days=self.default_days, branch_retention_days=dict(self.branch_days)
            )
        )

    @classmethod
    def decode(cls, data: bytes) -> Rules | None:
        """Read the file; None if it is empty. Raises FormatError if not a GarbageCollectionRules message."""
        if not data:
            return None
        record = messages.decode(messages.GarbageCollectionRules, data, RULES_KEY)
        return cls(record.default_retention_days, dict(record.branch_retention_days))


def read_rules(reader: ObjectReader) -> Rules | None:
    """Read a repository's rules; None where there is no file, or an empty one. `reader` is of the storage namespace."""
    try:
        return Rules.decode(reader.get(RULES_KEY))
    except NotFoundError:
        return None


def write_rules(writer: ObjectWriter, rules: Rules) -> None:
    """Replace a repository's rules."""
    writer.put(RULES_KEY, rules.encode())


def delete_rules(writer: ObjectWriter) -> None:
    """Remove the rules as a server does: by writing an empty file."""
    writer.put(RULES_KEY, b"")


def commits_key(run_id: str) -> str:
    """Key of a run's CSV."""
    return f"{COMMITS}/run_id={run_id}/commits.csv"


def commits_csv(active: Iterable[Commit]) -> bytes:
    """Write active commits. The metarange of a repository's first commit is empty (L8)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_COLUMNS)
    writer.writerows((commit.id, "false", commit.metarange_id) for commit in active)
    return text.getvalue().encode()


@dataclass(frozen=True, slots=True)
class _Start:
    commit_id: str
    threshold: datetime
    is_head: bool


def active_commits(
    commits: Iterable[Commit],
    branches: Iterable[Branch],
    rules: Rules,
    now: datetime,
    *,
    find: Callable[[str], Commit] | None = None,
    early_stop: bool = False,
) -> dict[str, Commit]:
    """Compute the active commits, by id.

    Args:
        commits: every commit record of the repository.
        branches: every branch, with hidden branches.
        find: reads a commit made during the listing of `commits`; raises NotFoundError.
        early_stop: check for an earlier visit before the mark, like the server.

    Raises:
        NotFoundError: a head or a main parent has no record. (A server ends its process here.)
    """
    by_id = _Commits(find)
    by_id.update((commit.id, commit) for commit in commits)
    active: set[str] = set()
    walked: dict[str, datetime] = {}
    for start in _starting_points(by_id, branches, rules, now):
        child = by_id[start.commit_id]
        child_date, following = child.creation_date, child.main_parent
        if start.is_head:
            active.add(child.id)
            walked[child.id] = start.threshold
        else:
            following = child.id  # the leaf is the parent of a child of the same age
        while following is not None:
            commit = by_id[following]
            is_walked = following in walked and walked[following] <= start.threshold
            if early_stop and is_walked:
                break
            if child_date > start.threshold:
                active.add(following)
            if is_walked:
                break
            walked[following] = start.threshold
            child_date, following = commit.creation_date, commit.main_parent
    return {commit_id: by_id[commit_id] for commit_id in sorted(active)}


class _Commits(dict[str, Commit]):
    def __init__(self, find: Callable[[str], Commit] | None) -> None:
        super().__init__()
        self._find = find

    def __missing__(self, commit_id: str) -> Commit:
        if self._find is None:
            raise NotFoundError(f"commit {commit_id} has no record")
        found = self[commit_id] = self._find(commit_id)
        return found


def _starting_points(
    by_id: Mapping[str, Commit],
    branches: Iterable[Branch],
    rules: Rules,
    now: datetime,
) -> list[_Start]:
    heads = [_Start(branch.commit_id, rules.threshold(now, branch.name), True) for branch in branches]
    head_ids = {head.commit_id for head in heads}
    parents = {commit.main_parent for commit in by_id.values()}
    default = rules.threshold(now, None)
    leaves = [
        _Start(commit_id, default, False)
        for commit_id in by_id
        if commit_id not in parents and commit_id not in head_ids
    ]
    return sorted(heads + leaves, key=lambda start: start.commit_id)
