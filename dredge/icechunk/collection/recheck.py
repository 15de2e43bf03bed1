"""Look again: what became live since the mark, and whether anything doomed did.

Commits made meanwhile are normal: they name chunks of a live base or young ones, and what their manifests
name is subtracted once more. A ref that reaches a candidate is not: on spec 1 a branch or a tag can be put
on a released snapshot, and then nothing of the mark can be trusted any more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from dredge.errors import DredgeError, NotFoundError, RefusedError, UnavailableError
from dredge.icechunk.collection import sets
from dredge.icechunk.collection.marking import manifest_rows, refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.plan import Context
from dredge.icechunk.format.snapshots import parse_snapshot
from dredge.icechunk.repository import SNAPSHOTS, read_refs, read_repo_info
from dredge.runs.gate import write_look
from dredge.storage import ObjectReader

log = logging.getLogger("dredge")


@dataclass(frozen=True, slots=True)
class Since:
    """What happened since the mark.

    Args:
        new: live snapshots that the mark did not know.
        risen: a ref, or the repo info, that reaches a doomed snapshot; None when nothing does.
    """

    new: frozenset[str]
    risen: str | None


def look_again(
    reader: ObjectReader, spec_version: int, known: Collection[str], doomed: Collection[str]
) -> Since:
    """Compare the repository with a mark.

    Args:
        reader: on the repository.
        spec_version: 1 or 2.
        known: snapshots that the mark found live.
        doomed: snapshots that are to be deleted.

    Raises:
        FormatError: the repository cannot be read.
        RefusedError: main is gone.
    """
    if spec_version == 2:
        listed = {entry.id for entry in read_repo_info(reader).snapshots}
        back = sorted(listed & set(doomed))
        return Since(
            frozenset(listed - set(known)), f"the repo info, which lists {back[0]}" if back else None
        )
    new: set[str] = set()
    for (kind, name), tip in sorted(read_refs(reader).items()):
        node: str | None = tip
        while node is not None and node not in known and node not in new:
            if node in doomed:
                return Since(frozenset(new), f"{kind} {name}, which reaches {node}")
            key = SNAPSHOTS + node
            try:
                parent = parse_snapshot(reader.get(key), key).parent_id
            except NotFoundError:
                return Since(frozenset(new), f"{kind} {name}, which reaches {node}, and that is gone")
            new.add(node)
            node = parent
    return Since(frozenset(new), None)


def refuse_risen(context: Context, since: Since) -> None:
    """Refuse to go on when something doomed became live."""
    if since.risen is not None:
        raise RefusedError(
            f"run {context.plan.run_id}: a snapshot that was to be deleted is in use again by {since.risen}."
            " Nothing more was deleted. Start a new run."
        )


def newly_live(reader: ObjectReader, since: Since) -> dict[str, sets.Ids]:
    """Give what the new snapshots name, by kind."""
    rows = list(snapshot_rows(reader, sorted(since.new)))
    refs = refs_by_manifest(rows)
    chunks = [found for _, found in manifest_rows(reader, refs)]
    return {
        "snapshots": sets.of_names(since.new),
        "transactions": sets.of_names(since.new),
        "manifests": sets.of_names(refs),
        "chunks": sets.unite(chunks),
    }


class Watch:
    """The driver's side of the gate: what it saw.

    Attributes:
        error: why the sweep must stop; None while it may go on.
    """

    def __init__(self, context: Context, known: Collection[str], doomed: Collection[str], key: str) -> None:
        self.error: DredgeError | None = None
        self._context = context
        self._known = known
        self._doomed = doomed
        self._key = key

    def look(self) -> bool:
        """Look at the refs, and write down whether the gate is open."""
        context = self._context
        try:
            since = look_again(context.reader, context.plan.spec_version, self._known, self._doomed)
            refuse_risen(context, since)
        except DredgeError as error:
            self.error = error
        except Exception as error:
            # Whatever it is: nobody looks now, so nobody may delete.
            self.error = UnavailableError(
                f"run {context.plan.run_id}: refs could not be looked at ({error}). What was deleted is in the"
                " ledger. Run the step again; it goes on where it stopped."
            )
        if self.error is not None:
            log.warning("the sweep stops: %s", self.error)
        try:
            write_look(context.folder, self._key, self.error is None, str(self.error or ""))
        except DredgeError as error:
            self.error = self.error or error  # workers will stop at the silence
        return self.error is None


@contextmanager
def watching(context: Context, known: Collection[str], doomed: Collection[str], key: str) -> Iterator[Watch]:
    """Look again while workers delete: at once, and then every few seconds.

    Args:
        context: of the run.
        known: snapshots that count as live.
        doomed: snapshots that are being deleted.
        key: what to write down the looks as, in the run's folder.
    """
    watch, done = Watch(context, known, doomed, key), threading.Event()

    def look() -> None:
        while not done.wait(context.plan.config.safety.gate_every_seconds) and watch.look():
            pass

    thread = threading.Thread(target=look, name="refs", daemon=True)
    if watch.look():
        thread.start()
    try:
        yield watch
    finally:
        done.set()
        if thread.is_alive():
            thread.join()
