"""API calls of garbage collection."""

from __future__ import annotations

from dredge.lakefs.files import messages
from dredge.lakefs.files.records import Repository, uncommitted_key
from dredge.xid import new_descending_xid, new_xid
from lakefs_embedded.catalog.copies import Copies
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs
from lakefs_embedded.catalog.results import PreparedCommits, PreparedUncommitted, PrepareStatus, SignedUrl
from lakefs_embedded.catalog.retention import (
    ADDRESSES_KEY,
    Rules,
    active_commits,
    commits_csv,
    commits_key,
    delete_rules,
    read_rules,
    write_rules,
)
from lakefs_embedded.catalog.settings import Settings
from lakefs_embedded.catalog.signed_urls import SignedUrls
from lakefs_embedded.catalog.tasks import Tasks
from lakefs_embedded.catalog.uncommitted import Mark, PageFile, UncommittedPage
from lakefs_embedded.errors import RulesNotFoundError
from lakefs_embedded.staging.area import StagingAreas

OPERATION = "gc_prepare_commits"
_TASK_PREFIX = "GCPC"


class GarbageService:
    """Stores the rules, and prepares a run: active commits, uncommitted addresses."""

    def __init__(
        self,
        refs: Refs,
        areas: StagingAreas,
        namespaces: Namespaces,
        copies: Copies,
        signed_urls: SignedUrls,
        tasks: Tasks,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._refs = refs
        self._areas = areas
        self._namespaces = namespaces
        self._copies = copies
        self._signed_urls = signed_urls
        self._tasks = tasks
        self._clock = clock
        self._settings = settings

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
        status = messages.GarbageCollectionPrepareStatus()

        def work() -> None:
            result = self._prepare_commits(found)
            status.info.run_id = result.run_id
            status.info.gc_commits_location = result.commits_location
            status.info.gc_addresses_location = result.addresses_location

        return self._tasks.submit(found, status, _TASK_PREFIX, OPERATION, work)

    def prepare_commits_status(self, repository: str, task_id: str) -> PrepareStatus:
        """The progress of `prepare_commits_async`. Unknown after 24 h."""
        found = self._refs.repositories.get(repository)
        status = self._tasks.get(found, task_id, _TASK_PREFIX, messages.GarbageCollectionPrepareStatus)
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
