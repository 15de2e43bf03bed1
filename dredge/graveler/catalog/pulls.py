"""Pull requests: proposals to merge one branch into another.

    <repository partition>   pulls/<id>                                        PullRequestData
    pulls                    repos/<repository partition>/<source>/<dest>      SecondaryIndex: id of the open one

The record is written before its index entry, and the entry decides: of two that are opened for the same branches
at once, one removes its record again. An entry whose pull request is gone or no longer open is replaced. Pull
requests do not keep commits from being collected (L18).

Source: lakeFS pkg/catalog/catalog.go (pull requests; behaviour only); rows of a real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from dredge.graveler import messages
from dredge.graveler.catalog.merges import MergeService
from dredge.graveler.catalog.model import Clock, Refs
from dredge.graveler.catalog.paging import named_page
from dredge.graveler.catalog.results import Page
from dredge.graveler.errors import BadRequestError, InvalidValueError, MissingError, NotUniqueError
from dredge.graveler.refs.records import Commit, Repository
from dredge.graveler.xid import new_countdown_xid
from dredge.kv import KeyNotFoundError, PredicateFailedError, Store

PREFIX = b"pulls/"
INDEX_PARTITION = b"pulls"

PullStatus = Literal["open", "closed", "merged"]
_STATUSES: dict[messages.PullRequestStatus, PullStatus] = {
    messages.PullRequestStatus.OPEN: "open",
    messages.PullRequestStatus.CLOSED: "closed",
    messages.PullRequestStatus.MERGED: "merged",
}
_NUMBERS = {status: number for number, status in _STATUSES.items()}


class PullNotFoundError(MissingError):
    """No pull request with that id."""

    default = "pull request not found"


class PullExistsError(NotUniqueError):
    """There is an open pull request for the same branches."""

    default = "pull request already exists: not unique"


class PullStateError(BadRequestError):
    """The operation is not possible in the pull request's state: merged, closed, or still open."""

    default = "wrong pull request status"


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request.

    Args:
        id: newer ones sort first.
        status: open, closed, or merged.
        title: title.
        description: description.
        author: name of the user.
        created: aware UTC.
        source: branch to be merged.
        destination: branch to merge into.
        commit_id: id of the merge commit; "" until it is merged.
        closed: when it was closed or merged; None while it is open.
    """

    id: str
    status: PullStatus
    title: str
    description: str
    author: str
    created: datetime
    source: str
    destination: str
    commit_id: str = ""
    closed: datetime | None = None


class PullService:
    """Opens, gets, lists, updates and merges pull requests.

    Args:
        kv: where they are.
        refs: records of repositories and branches.
        merges: merges their branches.
        clock: the time they are created and closed.
    """

    def __init__(self, kv: Store, refs: Refs, merges: MergeService, clock: Clock) -> None:
        self._kv = kv
        self._refs = refs
        self._merges = merges
        self._clock = clock

    def create_pull_request(
        self,
        repository: str,
        *,
        title: str,
        source: str,
        destination: str,
        author: str,
        description: str = "",
    ) -> str:
        """Open a pull request.

        Args:
            repository: its name.
            title: not empty.
            source: branch to be merged.
            destination: branch to merge into.
            author: name of the user.
            description: description.

        Returns:
            Its id.

        Raises:
            InvalidValueError: 400, no title, or both branches are the same.
            BranchNotFoundError: 404.
            PullExistsError: 409.
        """
        found = self._refs.repositories.writable(repository)
        if not title:
            raise InvalidValueError("pull request title must not be empty: invalid value")
        if source == destination:
            raise InvalidValueError("source and destination branches are the same: invalid value")
        for branch in (source, destination):
            self._refs.branches.current(found, branch)
        now = self._clock()
        record = messages.PullRequestData(
            id=new_countdown_xid(now),
            status=messages.PullRequestStatus.OPEN,
            created_at=messages.to_timestamp(now),
            title=title,
            author=author,
            description=description,
            source_branch=source,
            destination_branch=destination,
        )
        self._kv.set(found.partition, _key(record.id), messages.encode(record))
        if not self._take_index(found, record):
            self._kv.delete(found.partition, _key(record.id))
            raise PullExistsError
        return record.id

    def get_pull_request(self, repository: str, pull_id: str) -> PullRequest:
        """Look up a pull request.

        Raises:
            PullNotFoundError: 404.
        """
        found = self._refs.repositories.get(repository)
        return _pull(self._read_pull(found, pull_id)[0])

    def list_pull_requests(
        self,
        repository: str,
        *,
        status: PullStatus | None = None,
        prefix: str = "",
        after: str = "",
        amount: int = 100,
    ) -> Page[PullRequest]:
        """List pull requests, newest first.

        Args:
            repository: its name.
            status: only open ones, or only those that are closed or merged (`closed`); None: all.
            prefix: only ids that begin with it.
            after: last id of the previous page.
            amount: maximum number of results, at most 1000.
        """
        found = self._refs.repositories.get(repository)

        def scan(start: str) -> Iterator[PullRequest]:
            for row in self._kv.scan(found.partition, _key(start)):
                if not row.key.startswith(PREFIX):
                    return
                pull = _pull(messages.decode(messages.PullRequestData, row.value, "pull request"))
                if status is None or (status == "open") == (pull.status == "open"):
                    yield pull

        return named_page(scan, prefix, after, amount, lambda pull: pull.id)

    def update_pull_request(
        self,
        repository: str,
        pull_id: str,
        *,
        status: PullStatus | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        """Change the given fields; may close or reopen.

        Raises:
            PullNotFoundError: 404.
            PullStateError: 400, it has been merged, or `status` is "merged".
            PullExistsError: 409, reopened while another one is open for the same branches.
        """
        found = self._refs.repositories.writable(repository)
        if title == "":
            raise InvalidValueError("pull request title must not be empty: invalid value")
        record, raw = self._read_pull(found, pull_id)
        was = _STATUSES[record.status]
        if was == "merged" and status not in (None, "merged"):
            raise PullStateError(
                "a merged pull request cannot be opened or closed: wrong pull request status"
            )
        if status == "merged" and was != "merged":
            raise PullStateError("only a merge makes a pull request merged: wrong pull request status")
        if title is not None:
            record.title = title
        if description is not None:
            record.description = description
        if status is not None and status != was:
            record.status = _NUMBERS[status]
            if status == "open":
                record.ClearField("closed_at")
                if not self._take_index(found, record):
                    raise PullExistsError
            else:
                record.closed_at.CopyFrom(messages.to_timestamp(self._clock()))
        self._replace_pull(found, record, raw)
        if record.status != messages.PullRequestStatus.OPEN:
            self._free_index(found, record)

    def merge_pull_request(self, repository: str, pull_id: str, *, committer: str) -> Commit:
        """Merge an open pull request's source into its destination.

        Raises:
            PullNotFoundError: 404.
            PullStateError: 400, not open.
            MergeConflictError: 409; it remains open.
        """
        found = self._refs.repositories.writable(repository)
        record, raw = self._read_pull(found, pull_id)
        if record.status != messages.PullRequestStatus.OPEN:
            raise PullStateError("the pull request is not open: wrong pull request status")
        commit = self._merges.merge(
            repository,
            record.source_branch,
            record.destination_branch,
            committer=committer,
            message=record.title,
        )
        record.status = messages.PullRequestStatus.MERGED
        record.commit_id = commit.id
        record.closed_at.CopyFrom(messages.to_timestamp(self._clock()))
        self._replace_pull(found, record, raw)
        self._free_index(found, record)
        return commit

    def _read_pull(self, found: Repository, pull_id: str) -> tuple[messages.PullRequestData, bytes]:
        try:
            raw = self._kv.get(found.partition, _key(pull_id))
        except KeyNotFoundError:
            raise PullNotFoundError from None
        return messages.decode(messages.PullRequestData, raw, f"pull request {pull_id}"), raw

    def _replace_pull(self, found: Repository, record: messages.PullRequestData, raw: bytes) -> None:
        try:
            self._kv.set_if(found.partition, _key(record.id), messages.encode(record), raw)
        except PredicateFailedError:
            raise PullStateError(
                "the pull request was changed meanwhile: wrong pull request status"
            ) from None

    def _take_index(self, found: Repository, record: messages.PullRequestData) -> bool:
        """Index a pull request as the open one for its branches; False when another one is open."""
        key = _index_key(found, record)
        entry = messages.encode(messages.SecondaryIndex(primary_key=record.id.encode()))
        try:
            present: bytes | None = self._kv.get(INDEX_PARTITION, key)
        except KeyNotFoundError:
            present = None
        if present == entry:
            return True
        if present is not None and self._is_open(found, present):
            return False
        try:
            self._kv.set_if(INDEX_PARTITION, key, entry, present)
        except PredicateFailedError:
            return False
        return True

    def _is_open(self, found: Repository, entry: bytes) -> bool:
        pull_id = messages.decode(messages.SecondaryIndex, entry, "index of pull requests").primary_key
        try:
            record, _ = self._read_pull(found, pull_id.decode("utf-8", "replace"))
        except PullNotFoundError:
            return False
        return record.status == messages.PullRequestStatus.OPEN

    def _free_index(self, found: Repository, record: messages.PullRequestData) -> None:
        entry = messages.encode(messages.SecondaryIndex(primary_key=record.id.encode()))
        try:
            self._kv.delete_if(INDEX_PARTITION, _index_key(found, record), entry)
        except PredicateFailedError:
            return  # there is no entry, or it is another one's


def _pull(record: messages.PullRequestData) -> PullRequest:
    closed = messages.from_timestamp(record.closed_at) if record.HasField("closed_at") else None
    return PullRequest(
        id=record.id,
        status=_STATUSES[record.status],
        title=record.title,
        description=record.description,
        author=record.author,
        created=messages.from_timestamp(record.created_at),
        source=record.source_branch,
        destination=record.destination_branch,
        commit_id=record.commit_id,
        closed=closed,
    )


def _key(pull_id: str) -> bytes:
    return PREFIX + pull_id.encode("utf-8", "surrogateescape")


def _index_key(found: Repository, record: messages.PullRequestData) -> bytes:
    names = f"{record.source_branch}/{record.destination_branch}"
    return b"repos/" + found.partition + f"/{names}".encode()
