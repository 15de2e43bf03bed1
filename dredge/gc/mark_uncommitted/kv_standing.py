"""What the records of a key-value store are worth: whether it is the very store that the server writes to, now.

A copy (a backup restored, a replica that fell behind, a staging environment's database) has the right repository and
often the right heads, and still lacks what was staged since. So the server is made to write something that no copy can
have. Asked for its usage report, a server adds the requests it has served to a counter in its store and tells the sum
that is there then. All servers of an installation add to the same counter, and nobody takes anything away:

    server says c0, then c1 > c0   →   the store is opened, and has c   →   server says c2          c1 ≤ c ≤ c2

The counter reached c1 after the server had told c0, so a store that has at least c1 has what the server's had at a
time later than that answer, as far as it is one moment or one copy in order. One whose counter has gone another way
is another installation's; it would have to hit the few numbers between c1 and c2.

    proved     what follows from the records alone may be used
    doubtful   it cannot be said: the server has no such report, or does not count; records have unknown fields
    refuted    the counter is another one: what the records do not have may exist all the same

In PostgreSQL and SQLite a view is one moment, that of its first read, which is the counter's. DynamoDB has no such
view, but every read there is consistent and later than the one before it; who reads must choose a safe order. A table
that is replicated between regions has to be read where the servers are.

Besides, branches that did not move on the server while the store was read must have the same heads there.

Source: lakeFS pkg/stats/usage_counter.go, pkg/api/controller.go (GetUsageReportSummary), behaviour only
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.mark_uncommitted.kv_repository import RepositoryRecords
from dredge.gc.run import Run
from dredge.kv.rows import RowView
from dredge.lakefs import LakeFS, Usage

_TRIES = 5
_PARTITION = b"usage"


@dataclass(frozen=True, slots=True)
class Standing:
    """What may be concluded from the records of a store.

    Attributes:
        location: the store, without credentials.
        doubt: why not everything; "" when they are proved to be the server's own, as of now.
        refuted: whether they are proved not to be.
    """

    location: str
    doubt: str = ""
    refuted: bool = False


def look[T](
    run: Run, read: Callable[[RepositoryRecords], T], access: KVAccess | None = None
) -> tuple[T, Standing]:
    """Read records of the run's repository, and say what they are worth.

    Args:
        run: the run.
        read: what to read, in an order that is safe also where the store gives no single moment.
        access: None reads the environment.

    Raises:
        ConfigError: the store is not named, or does not exist.
        RefusedError: it is not the store of this repository.
        FormatError: a record cannot be read.
    """
    before = _heads(run)
    written = have_written(run.client)
    with (access or KVAccess.from_env()).open() as store, store.view() as view:
        # First of all: where a view is one moment, it is that of the first read.
        counted = None if written is None else count_of(view, written.installation_id)
        records = RepositoryRecords(run.plan, view, store.location)
        found = read(records)
    after = None if written is None else run.client.usage()
    _check_heads(records, before, _heads(run))
    return found, _judge(records, written, counted, after)


def have_written(client: LakeFS) -> Usage | None:
    """Have the server write to its store, so that its counter grows after this call began.

    Returns:
        What the counter has reached; None when the server does not tell, or when it does not grow.
    """
    first = client.usage()
    for _ in range(_TRIES):
        if first is None or not first.installation_id:
            return None
        found = client.usage()
        if found is None or found.installation_id != first.installation_id:
            return None
        if found.requests > first.requests:
            return found
    return None


def count_of(view: RowView, installation_id: str) -> int | None:
    """The counter of an installation in a store; None when it cannot be read."""
    prefix = f"usage/monthly/{installation_id}/".encode()
    total = 0
    for entry in view.scan(_PARTITION, prefix):
        if not entry.key.startswith(prefix):
            break
        if not entry.value.isdigit():
            return None
        total += int(entry.value)
    return total


def _judge(
    records: RepositoryRecords, written: Usage | None, counted: int | None, after: Usage | None
) -> Standing:
    if (
        written is None
        or counted is None
        or after is None
        or after.installation_id != written.installation_id
    ):
        return Standing(
            records.location,
            "the server does not tell how many requests its store counts (usage report), so nothing shows that the"
            f" server writes to {records.location}",
        )
    if not written.requests <= counted <= after.requests:
        return Standing(
            records.location,
            f"{records.location} counts {counted:,} requests where the server's own store had"
            f" {written.requests:,} to {after.requests:,}: it is a copy, or another installation's",
            refuted=True,
        )
    if records.unknown:
        return Standing(
            records.location,
            f"records such as {', '.join(records.unknown)} have fields that this version does not know",
        )
    return Standing(records.location)


def _heads(run: Run) -> dict[str, str]:
    return {branch.id: branch.commit_id for branch in run.client.branches(run.plan.repository)}


def _check_heads(records: RepositoryRecords, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Compare heads: a branch that did not move on the server while the store was read has the same head there."""
    for name, commit_id in before.items():
        if after.get(name) == commit_id and records.heads.get(name) != commit_id:
            found = records.heads.get(name)
            says = f"at commit {found[:12]}…" if found else "not there"
            raise RefusedError(
                f"branch {name} is at commit {commit_id[:12]}… on the server, and {says} in {records.location}: that"
                " is another installation's store, or an old copy. Nothing was deleted. Name the server's own"
                " database."
            )
