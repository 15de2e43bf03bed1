"""Re-check: objects that became live after the mark, and candidates that are in use again.

Commits after the mark are normal: their chunks are live or young, and the sweep subtracts the chunks of their manifests
once more. A ref that reaches a candidate stops the sweep: in spec 1 a branch or a tag can be set to a released
snapshot, and then the mark is wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from dredge.errors import DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.kinds import FOLDERS, is_old
from dredge.icechunk.collection.live_files import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.mark.snapshots import snapshot_files, with_ancestors
from dredge.icechunk.collection.run import Run
from dredge.icechunk.collection.witness.operations import read_old_refs
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.repository import MANIFESTS, SNAPSHOTS, read_refs, read_repo_info
from dredge.runs.watch import Watch
from dredge.storage import ObjectReader, exists


@dataclass(frozen=True, slots=True)
class Changes:
    """New live snapshots since the mark, and the ref or repo info that reaches a candidate (None without one)."""

    new: frozenset[str]
    in_use_by: str | None


def look_again(
    reader: ObjectReader,
    spec_version: int,
    marked: Collection[str],
    candidates: Collection[str],
    old_refs: Collection[tuple[str, str]] = (),
) -> Changes:
    """Compare the repository with a mark.

    Raises:
        FormatError: the repository cannot be read.
        RefusedError: main is missing.
    """
    if spec_version == 2:
        listed = {entry.id for entry in read_repo_info(reader).snapshots}
        back = sorted(listed & set(candidates))
        user = f"the repo info, which lists {back[0]}" if back else _late_old_ref(reader, marked, old_refs)
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
                return Changes(frozenset(new), f"{kind} {name}, which reaches the missing {node}")
            new.add(node)
            node = parent
    return Changes(frozenset(new), None)


def _late_old_ref(
    reader: ObjectReader, marked: Collection[str], known: Collection[tuple[str, str]]
) -> str | None:
    for ref in read_old_refs(reader):
        if ref.tip not in marked and (ref.label, ref.tip) not in known:
            return f"{ref.label} in refs/ at {ref.tip}, written by a program that still uses spec 1"
    return None


def find_unnamed(
    reader: ObjectReader, marked: Collection[str], candidates: Collection[str], since: datetime
) -> set[str]:
    """Unreferenced snapshot files written since the mark, with their ancestors."""
    found = {
        node
        for node, time in snapshot_files(reader)
        if node not in marked and node not in candidates and not is_old(time, since)
    }
    return with_ancestors(reader, found, marked) - set(marked)


def in_use_text(run: Run, user: str) -> str:
    """Message for a candidate in use."""
    return (
        f"run {run.plan.run_id}: a candidate snapshot is in use again by {user}. The run deletes nothing more. Start a"
        " new run."
    )


def refuse_use(run: Run, changes: Changes) -> None:
    """Raise RefusedError if a candidate is in use again."""
    if changes.in_use_by is not None:
        raise RefusedError(in_use_text(run, changes.in_use_by))


def find_use(
    run: Run,
    marked: Collection[str],
    candidates: Collection[str],
    old_refs: Collection[tuple[str, str]] = (),
) -> str | None:
    """Reason to stop a running sweep; None to continue.

    Raises:
        FormatError: the repository cannot be read.
        RefusedError: main is missing.
    """
    user = look_again(run.reader, run.plan.spec_version, marked, candidates, old_refs).in_use_by
    return None if user is None else in_use_text(run, user)


def error_of_stop(run: Run, watch: Watch) -> DredgeError:
    """The error for a stopped sweep, from the driver's watch."""
    if isinstance(watch.error, DredgeError):
        return watch.error
    if watch.error is None and watch.found is not None:
        return RefusedError(watch.found)
    why = (
        "the sweep stopped, because the last check of the refs was too old."
        if watch.error is None
        else f"refs could not be checked ({watch.error})."
    )
    return UnavailableError(
        f"run {run.plan.run_id}: {why} The ledger has the deleted objects. Run the step again; it continues there."
    )


def newly_live(
    reader: ObjectReader, new: Collection[str], unnamed: Collection[str] = ()
) -> dict[str, sets.Ids]:
    """Read the ids that snapshots need, by kind of object: files of any kind may have ids in locations of virtual
    chunks.
    """
    refs = refs_by_manifest(snapshot_rows(reader, sorted(new)))
    there = [node for node in sorted(unnamed) if exists(reader, SNAPSHOTS + node)]
    more = refs_by_manifest(snapshot_rows(reader, there))
    refs = {node: count for node, count in more.items() if exists(reader, MANIFESTS + node)} | refs
    kept, chunks = sets.of_names({*new, *there}), [found for _, found in manifest_rows(reader, refs)]
    named = {
        "snapshots": kept,
        "transactions": kept,
        "manifests": sets.of_names(refs),
        "chunks": sets.unite([found.native for found in chunks]),
    }
    virtual = sets.unite([found.virtual for found in chunks])
    return {kind: sets.unite([virtual, named.get(kind, sets.NONE)]) for kind in FOLDERS}
