"""What has to hold while something is deleted: the rows that could come to name it.

Only few records can ever name a given thing. A staging token is only ever named by the branch whose
repository and name its text is made of; an instance only by the record of its repository's name. These
rows, as they are now or as absent, are checked in the same transaction that deletes, so whoever names
the thing in between makes the deletion fail instead of the data disappear.

What this cannot fence is an operation that has not written any record yet: a reset by prefix that is
filling a token, a create before its record. For those there is the wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from dredge.kv.rows import Guard
from dredge.trash.finding import TrashFinding
from dredge.trash.key_rules import (
    OF_EARLIER_LIFE,
    OF_MISSING_REPOSITORY,
    OF_MISSING_RUN,
    branch_of_owner,
    pull_of_index,
    repository_of_action,
    run_of_action,
)
from dredge.trash.margins import INSTANCE_MARGIN
from dredge.trash.names import (
    ACTIONS,
    BRANCH_PREFIX,
    MARKERS,
    OWNERS,
    PULLS,
    REPOSITORIES,
    REPOSITORY_PREFIX,
    parse_instance,
    possible_branches,
)
from dredge.trash.references import References


def guards_of(finding: TrashFinding, value: bytes | None, references: References) -> list[Guard]:
    """Name the rows that must stay as they are while a finding is deleted.

    Args:
        finding: what is to be deleted.
        value: of its row; None for a whole partition.
        references: as they are now.
    """
    if finding.key is None:
        instance = parse_instance(finding.partition)
        if instance is not None:
            return [_record(instance.repository, references)]
        return list(_branches(finding.partition, references))
    if finding.partition == MARKERS:
        return list(_branches(finding.key, references))
    guards = list(_key_guards(finding.partition, finding.key, value or b"", references))
    if finding.kind == OF_MISSING_RUN:
        guards.append(Guard(ACTIONS, run_of_action(finding.key), None))
    return guards


def named_now(finding: TrashFinding, references: References) -> bool:
    """Say whether a record names a finding by now, whatever earlier looks saw."""
    if finding.key is None:
        return finding.partition in references.partitions or finding.partition in references.tokens
    if finding.partition == MARKERS:
        return finding.key in references.tokens
    if finding.kind == OF_MISSING_REPOSITORY:
        return repository_of_action(finding.key) in references.repositories
    if finding.kind == OF_EARLIER_LIFE:
        return _may_be_of_this_life(finding, references)
    if finding.partition == OWNERS:
        found = branch_of_owner(finding.key)
        record = references.repositories.get(found[0]) if found else None
        return record is not None and found is not None and found[1] in references.branches[record.partition]
    return False


def _may_be_of_this_life(finding: TrashFinding, references: References) -> bool:
    """Whether a hook run began in the life that has the name by now: somebody may have brought an earlier one back."""
    record = references.repositories.get(repository_of_action(finding.key or b"") or "")
    return record is not None and (finding.since is None or finding.since >= record.created - INSTANCE_MARGIN)


def _key_guards(partition: bytes, key: bytes, value: bytes, references: References) -> Iterator[Guard]:
    if partition == PULLS:
        found = pull_of_index(key, value)
        instance = parse_instance(found[0]) if found else None
        if found and instance:
            yield _record(instance.repository, references)
            yield Guard(found[0], b"pulls/" + found[1].encode(), None)
    elif partition == ACTIONS:
        repository = repository_of_action(key)
        if repository:
            yield _record(repository, references)
    elif partition == OWNERS:
        owner = branch_of_owner(key)
        if owner:
            yield _record(owner[0], references)
            record = references.repositories.get(owner[0])
            if record:
                yield Guard(record.partition, BRANCH_PREFIX + owner[1].encode(), None)


def _record(repository: str, references: References) -> Guard:
    record = references.repositories.get(repository)
    key = REPOSITORY_PREFIX + repository.encode()
    return Guard(REPOSITORIES, key, record.value if record else None)


def _branches(token: bytes, references: References) -> Iterator[Guard]:
    """Every branch whose record could name a token: in each life of each repository that fits its text."""
    for repository, branch in possible_branches(token):
        for partition in references.lives.get(repository, ()):
            record = references.branches[partition].get(branch)
            yield Guard(partition, BRANCH_PREFIX + branch.encode(), record.value if record else None)
