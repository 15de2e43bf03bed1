"""Whole partitions that are trash: of repositories, and of staged changes.

Records decide first, the shape of a name only afterwards. Whatever matches no rule is live or a person's
business.
"""

from __future__ import annotations

from collections.abc import Iterator

from dredge.trash.classifier import Classifier, Status
from dredge.trash.finding import TrashFinding, Verdict
from dredge.trash.look import Contents, InstanceLook
from dredge.trash.names import MARKERS, REPOSITORIES, REPOSITORY_PREFIX, first_part, parse_instance
from dredge.trash.references import RepositoryRecord


def partitions(classifier: Classifier) -> Iterator[TrashFinding]:
    """Classify the partitions of repositories and of staged changes."""
    for partition, instance in classifier.look.instances.items():
        if partition not in classifier.look.unsure:
            yield from _instance(classifier, partition, instance)
    for partition, contents in classifier.look.staging.items():
        if partition not in classifier.look.unsure:
            yield from _staging(classifier, partition, contents)
    for partition in sorted(classifier.look.unsure):
        yield TrashFinding(partition, None, "in-motion", "wait", "was in use when this look began")
    for partition in classifier.look.unknown:
        yield TrashFinding(partition, None, "unknown", "report", "not a name that lakeFS writes: left alone")


def _instance(classifier: Classifier, partition: bytes, instance: InstanceLook) -> Iterator[TrashFinding]:
    status = classifier.statuses[partition]
    contents = instance.contents
    if status == "active":
        why = "reachable by id only; retention may still use it"
        for commit in instance.dangling:
            yield TrashFinding(partition, b"commits/" + commit.encode(), "commit-dangling", "report", why, 1)
    elif status in ("in-deletion", "initial"):
        record = classifier.references.partitions[partition]
        for key, size_bytes in instance.names.items():
            yield TrashFinding(partition, key, first_part(key), "wait", "live repository", 1, size_bytes)
        yield _unusable(classifier, record)
    elif status == "handed-over":
        why = "deleted and handed over to the cleaner"
        yield classifier.candidate(partition, None, "deleted-repository", why, contents)
    elif status == "lost":
        why = "holds history or staged data but no record names it"
        yield _report(classifier, partition, "lost-repository", why, contents)
    elif status == "unclear":
        why = "no record names it, and it is neither a failed create nor what a delete leaves"
        yield _report(classifier, partition, "repository-unclear", why, contents)
    else:
        yield _unrecorded(classifier, partition, status, contents)


def _unrecorded(classifier: Classifier, partition: bytes, status: Status, contents: Contents) -> TrashFinding:
    life = parse_instance(partition)
    assert life is not None  # only its shape made it an instance
    young = "young: may be a repository being created" if classifier.is_young(life.created) else ""
    if status == "zombie":
        kind, why = "zombie-create", "first commit and branch only, no record"
    else:
        kind, why = "deleted-repository-leftovers", "no record, no first commit, no usable head"
    return classifier.candidate(partition, None, kind, why, contents, since=life.created, young=young)


def _report(
    classifier: Classifier, partition: bytes, kind: str, why: str, contents: Contents
) -> TrashFinding:
    life = parse_instance(partition)
    since = life.created if life else None
    if since is not None and classifier.is_young(since):
        return TrashFinding(
            partition,
            None,
            kind,
            "wait",
            "young: may be a repository being created",
            contents.rows,
            contents.size_bytes,
            since=since,
        )
    return TrashFinding(partition, None, kind, "report", why, contents.rows, contents.size_bytes, since=since)


def _unusable(classifier: Classifier, record: RepositoryRecord) -> TrashFinding:
    """A repository that is being deleted or created: the server's business, or a person's."""
    key = REPOSITORY_PREFIX + record.name.encode()
    size = len(key) + len(record.value)
    if record.state == "in-deletion":
        why = "repeat the delete through the API"
        return TrashFinding(REPOSITORIES, key, "repository-in-deletion", "report", why, 1, size)
    if classifier.is_young(record.created):
        why = "young: may be a repository being created"
        return TrashFinding(REPOSITORIES, key, "repository-initial", "wait", why, 1, size)
    why = "its create failed: ask for it through the API, which marks it, then delete it there"
    return TrashFinding(REPOSITORIES, key, "repository-initial", "report", why, 1, size)


def _staging(classifier: Classifier, partition: bytes, contents: Contents | None) -> Iterator[TrashFinding]:
    queued = partition in classifier.look.small.get(MARKERS, {})
    naming = classifier.references.tokens.get(partition)
    if naming is not None:
        statuses = {classifier.status_of(owner) for owner in naming}
        rows, size = (contents.rows, contents.size_bytes) if contents else (0, 0)
        if "active" in statuses:
            if queued:
                why = "the server will drop a partition that a branch still names"
                yield TrashFinding(partition, None, "staging-live-but-queued", "report", why, rows, size)
            return
        verdict: Verdict = "report" if statuses & {"lost", "unclear"} else "wait"
        yield TrashFinding(partition, None, "staging", verdict, "named by a branch record", rows, size)
    elif contents is None:
        return  # emptied while this look went on
    elif queued:
        why = "queued for dropping and named by no branch"
        yield classifier.candidate(partition, None, "staging-queued", why, contents)
    else:
        yield classifier.candidate(
            partition,
            None,
            "staging-orphan",
            "named by no branch",
            contents,
            held="named by no branch any more: its record may be lost"
            if classifier.was_named_lately(partition)
            else "",
        )
