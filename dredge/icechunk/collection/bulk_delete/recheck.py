"""Look again: what became live since the mark, and whether anything that is to be deleted did.

Commits made meanwhile are normal: they name chunks of a live base or young ones, and what their manifests name is
subtracted once more. A ref that reaches a candidate is not: on spec 1 a branch or a tag can be put on a released
snapshot, and then nothing of the mark can be trusted any more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from dredge.errors import DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.live_files import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.repository import SNAPSHOTS, read_refs, read_repo_info
from dredge.runs.watch import Watch
from dredge.storage import ObjectReader


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened since the mark.

    Attributes:
        new: live snapshots that the mark did not know.
        in_use_by: a ref, or the repo info, that reaches a candidate; None when nothing does.
    """

    new: frozenset[str]
    in_use_by: str | None


def look_again(
    reader: ObjectReader, spec_version: int, marked: Collection[str], candidates: Collection[str]
) -> Changes:
    """Compare the repository with a mark.

    Args:
        reader: on the repository.
        spec_version: 1 or 2.
        marked: snapshots that the mark found live.
        candidates: snapshots that are to be deleted.

    Raises:
        FormatError: the repository cannot be read.
        RefusedError: main is gone.
    """
    if spec_version == 2:
        listed = {entry.id for entry in read_repo_info(reader).snapshots}
        back = sorted(listed & set(candidates))
        user = f"the repo info, which lists {back[0]}" if back else None
        return Changes(frozenset(listed - set(marked)), user)
    new: set[str] = set()
    for (kind, name), tip in sorted(read_refs(reader).items()):
        node: str | None = tip
        while node is not None and node not in marked and node not in new:
            if node in candidates:
                return Changes(frozenset(new), f"{kind} {name}, which reaches {node}")
            key = SNAPSHOTS + node
            try:
                parent = parse_snapshot(reader.get(key), key).parent_id
            except NotFoundError:
                return Changes(frozenset(new), f"{kind} {name}, which reaches {node}, and that is gone")
            new.add(node)
            node = parent
    return Changes(frozenset(new), None)


def in_use_text(run: Run, user: str) -> str:
    """Say that a candidate is in use again.

    Args:
        run: that would delete it.
        user: a ref, or the repo info, that reaches it.
    """
    return (
        f"run {run.plan.run_id}: a snapshot that was to be deleted is in use again by {user}. Nothing more was"
        " deleted. Start a new run."
    )


def refuse_use(run: Run, changes: Changes) -> None:
    """Raise RefusedError when a candidate is in use again."""
    if changes.in_use_by is not None:
        raise RefusedError(in_use_text(run, changes.in_use_by))


def find_use(run: Run, marked: Collection[str], candidates: Collection[str]) -> str | None:
    """Look once while workers delete: why the sweep must stop, None while it may go on.

    Args:
        run: whose repository is looked at.
        marked: snapshots that count as live.
        candidates: snapshots that are being deleted.

    Raises:
        FormatError: the repository cannot be read.
        RefusedError: main is gone.
    """
    user = look_again(run.reader, run.plan.spec_version, marked, candidates).in_use_by
    return None if user is None else in_use_text(run, user)


def error_of_stop(run: Run, watch: Watch) -> DredgeError:
    """Give the error for a sweep that stopped before it was done, by what the driver saw."""
    if isinstance(watch.error, DredgeError):
        return watch.error
    if watch.error is None and watch.found is not None:
        return RefusedError(watch.found)
    why = (
        "the sweep stopped, because nobody had looked at the refs for too long."
        if watch.error is None
        else f"refs could not be looked at ({watch.error})."
    )
    return UnavailableError(
        f"run {run.plan.run_id}: {why} What was deleted is in the ledger. Run the step again; it goes on where it"
        " stopped."
    )


def newly_live(reader: ObjectReader, new: Collection[str]) -> dict[str, sets.Ids]:
    """Give what snapshots name, by kind of object.

    Args:
        reader: on the repository.
        new: snapshots that became live since the mark.

    Raises:
        FormatError: a file is missing or damaged.
    """
    refs = refs_by_manifest(snapshot_rows(reader, sorted(new)))
    return {
        "snapshots": sets.of_names(new),
        "transactions": sets.of_names(new),
        "manifests": sets.of_names(refs),
        "chunks": sets.unite([chunks for _, chunks in manifest_rows(reader, refs)]),
    }
