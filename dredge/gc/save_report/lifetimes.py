"""How long Dredge's own files live: what superseded ones and old run folders a complete run removes at its end.

    run folders                     older than `keep_runs_days`; which ones says `old_folders`
    versions of the state           superseded for a week
    layers of counts                named by no version that is left
    pins                            ended a week ago, and hashes of a restore that died before its pin counted
    parts of records of marks       of earlier marks, a week old
    parts of the pending list       of earlier lists, a week old: a run that waits builds on the list that it has read
    hashes of deleted objects       of earlier checks a week old; records of deletions with the run's folder
    parts of the committed index    superseded by compaction a week ago, or of a run that died before it named them

What may still be read stays: whatever a version of the state names that was the newest one at any time during the
last week. A run that is at work, waits for an approval, or was cleared and goes on, was planned on one of them:
its mark can be swept for hours only. A file that no version of the state names is never named again, because each
version names files of the one before it and new ones. So nothing that is old and named by none of those
versions can be needed, also when the run that removes it has been overtaken by another one.

"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial

from dredge.errors import DredgeError
from dredge.gc.index.store import CHECKPOINTS, MANIFESTS, PARTS, CommittedIndex
from dredge.gc.list_committed import COUNTED
from dredge.gc.plan import METADATA_RUNS, Plan
from dredge.gc.referring import FOLDER as REFERRING
from dredge.gc.run import Run
from dredge.gc.save_report.old_folders import is_run_of, side_places
from dredge.gc.save_report.output import OwnFilesOutput
from dredge.gc.save_report.own_files import FILES_PENDING, OWN, OWN_RUNS, ROOT, own_files_deleter
from dredge.gc.state.model import RunState
from dredge.gc.state.output import StateOutput
from dredge.gc.state.store import DISTRUSTED, VERSIONS, StateStore
from dredge.gc.verify import VerifyOutput
from dredge.gc.witness.record import FOLDER, parts_of, read_record
from dredge.runs.cleanup import ListedFiles, counting_versions, remove_own_files
from dredge.runs.clock import check_clocks
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.pending.store import superseded_parts
from dredge.runs.steps import StepRecord
from dredge.runs.versions import KEEP_DAYS_MIN
from dredge.storage import ObjectReader, ObjectWriter, open_reader, open_writer
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.deletions import CHECKED, DELETIONS, Deletions, named_by_check, read_deletions
from dredge.undo.old_folders import Place, ended_pins, find_old_folders
from dredge.undo.pins import Pin, is_seen, read_pins

log = logging.getLogger("dredge")


@dataclass(slots=True)
class Superseded:
    """What may be removed, as keys relative to `own_files.ROOT`.

    Attributes:
        bookkeeping: files of state, counts and index.
        runs: files of each run folder, its plan last.
        size_bytes: of all of them together.
        folders_left: old folders that were not looked into this time.
    """

    bookkeeping: list[str] = field(default_factory=list)
    runs: dict[str, list[str]] = field(default_factory=dict)
    size_bytes: int = 0
    folders_left: int = 0

    @property
    def keys(self) -> list[str]:
        """All of them, in the order in which they are removed."""
        return [*self.bookkeeping, *(key for keys in self.runs.values() for key in keys)]


def clean_up(run: Run) -> None:
    """Remove what nothing needs any more; in a dry run only say what that is.

    Whatever goes wrong is a warning: a run is none the worse for files that stay.

    Args:
        run: it is complete.
    """
    if run.plan.config.keep_runs_days is None:
        return
    try:
        inputs = (VerifyOutput,) if run.plan.dry_run else (StateOutput,)
        run.step(OwnFilesOutput, lambda record: _clean_up(run, record), inputs)
    except DredgeError as error:
        log.warning("Dredge's own files were not cleaned up; a later run does it: %s", error)


def _clean_up(run: Run, record: StepRecord) -> None:
    found = find_superseded(run)
    record.counts.update(
        own_files=len(found.keys),
        own_bytes=found.size_bytes,
        own_run_folders=len(found.runs),
        folders_left=found.folders_left,
    )
    if run.plan.dry_run:
        record.status = "dry_run"
        return
    deleter = own_files_deleter(run.plan.namespace, run.options)
    remove_own_files(deleter, found.keys, lambda: run.lease.check(run.plan.lease, run.store_now()), record)


def find_superseded(run: Run) -> Superseded:
    """Find what nothing needs any more; removes nothing.

    Raises:
        RefusedError: the store's clock and this machine's differ too much.
        DredgeError: the state, or a listing, cannot be read, so that nothing can be said.
    """
    reader = open_reader(f"{run.plan.namespace.rstrip('/')}/{ROOT}", run.options)
    now = run.store_now()
    # By a clock that jumped, everything would be old.
    check_clocks((now - run.clock()).total_seconds(), run.plan.config.safety.clock_skew_seconds_max)
    week_ago = now - timedelta(days=KEEP_DAYS_MIN)
    # Listed first: what a version names that is written meanwhile is new, or named by the one before it.
    files = ListedFiles.of(reader, f"{OWN}/", week_ago)
    with at_once() as ask:
        versions_read = ask(counting_versions, StateStore(run.state, run.options), files, f"{OWN}/")
        others = [
            ask(_superseded_index, run, run.state, f"{OWN}/", files),
            ask(_superseded_referring, run, files),
            ask(_ended_pins, run, files, week_ago),
            ask(_superseded_marks, run, files),
            ask(_superseded_lists, run, files),
        ]
        deletions_read, checked = ask(read_deletions, run.state), ask(named_by_check, run.state)
        side = ask(side_places, run, reader)
    versions, deletions = versions_read.result(), deletions_read.result()
    found = Superseded()
    kept = {f"{OWN}/{name}" for name in versions}
    kept |= {f"{OWN}/{part.name}" for state in versions.values() for part in state.counted.parts}
    # A note on a version goes with it.
    kept |= {f"{OWN}/{DISTRUSTED}/{name.rpartition('/')[2]}" for name in versions}
    for place in (VERSIONS, DISTRUSTED, COUNTED):
        found.bookkeeping += [key for key in files.old(f"{OWN}/{place}/") if key not in kept]
    for other in others:
        found.bookkeeping += other.result()
    kept_deletions = _kept_deletions(run, deletions, now)
    found.bookkeeping += _superseded_checks(checked.result(), files, deletions, kept_deletions)
    found.size_bytes = sum(files.sizes[key] for key in found.bookkeeping)
    _find_runs(run, reader, now, versions.values(), kept_deletions, side.result(), found)
    return found


def _superseded_index(run: Run, state: ObjectWriter, own: str, files: ListedFiles) -> list[str]:
    """Files of a committed index that no run reads: parts none of whose ranges counts any more, manifests that
    the newest checkpoint stands for, and older checkpoints."""
    index, found = CommittedIndex.load(state, run.plan.namespace), list[str]()
    counting = {name for name, _ in index.places.values()}
    for name, part in index.parts.items():
        if name not in counting:
            found += {f"{own}{part.addresses.name}", f"{own}{part.sizes.name}"} & files.aged
    if index.distrusted:
        return found  # what these name is unknown
    named = {item.name for part in index.parts.values() for item in (part.addresses, part.sizes)}
    found += [key for key in files.old(f"{own}{PARTS}/") if key.removeprefix(own) not in named]
    for place in (MANIFESTS, CHECKPOINTS):
        old = files.old(f"{own}{place}/")
        found += [key for key in old if key.removeprefix(own) in index.superseded]
    return found


def _superseded_referring(run: Run, files: ListedFiles) -> list[str]:
    """The same of the indexes of referring repositories."""
    found = list[str]()
    for folder in run.state.list_level(f"{REFERRING}/").folders:
        state = open_writer(f"{run.state.uri}/{folder.rstrip('/')}", run.options)
        found += _superseded_index(run, state, f"{OWN}/{folder}", files)
    return found


def _superseded_marks(run: Run, files: ListedFiles) -> list[str]:
    """Parts of the records of earlier marks. The pointer is read after they were listed, so that no
    part that it names is taken for an old one."""
    record = read_record(run.state).record
    named = set() if record is None else {f"{OWN}/{key}" for key in parts_of(record)}
    return [key for key in files.old(f"{OWN}/{FOLDER}/") if key.endswith(".parquet") and key not in named]


def _superseded_lists(run: Run, files: ListedFiles) -> list[str]:
    """Parts of earlier pending lists."""
    of_files = open_reader(f"{run.plan.namespace.rstrip('/')}/{METADATA_RUNS}", run.options)
    with at_once() as ask:
        asked = [
            ask(superseded_parts, state, files, f"{OWN}/{place}/")
            for place, state in ((PENDING, run.state), (FILES_PENDING, of_files))
        ]
    return [key for parts in asked for key in parts.result()]


def _kept_deletions(run: Run, deletions: Deletions, now: datetime) -> set[str]:
    """Runs whose ledgers are kept, however old: something that they deleted can still be brought back, or nobody can
    tell."""
    days = run.plan.config.keep_runs_days
    assert days is not None
    young = now - timedelta(days=days)
    kept = {item.run_id for item in deletions.found if item.can_come_back(now) or item.at >= young}
    return kept | deletions.unread.keys()


def _superseded_checks(
    named_now: set[str], files: ListedFiles, deletions: Deletions, kept: set[str]
) -> Iterator[str]:
    """Hashes of earlier checks, and records of deletions that are not kept, each record before its hashes. What the
    records name is read after the files were listed."""
    checked = {f"{OWN}/{key}" for key in named_now}
    yield from (key for key in files.old(f"{OWN}/{CHECKED}/") if key not in checked)
    named = {f"{OWN}/{item.hashes.key}" for item in deletions.found if item.run_id in kept}
    old = files.old(f"{OWN}/{DELETIONS}/")
    ended = {item.run_id for item in deletions.found} - kept
    yield from (key for key in old if key.removeprefix(f"{OWN}/{DELETIONS}/").removesuffix(".json") in ended)
    if not deletions.unread:  # nobody knows what these name
        yield from (key for key in old if key.endswith(".u64") and key not in named)


def _ended_pins(run: Run, files: ListedFiles, week_ago: datetime) -> list[str]:
    return list(
        ended_pins(read_pins(run.state), files, f"{OWN}/", lambda pin: _is_over(pin, run.plan, week_ago))
    )


def _is_over(pin: Pin, plan: Plan, week_ago: datetime) -> bool:
    """Whether nobody needs a pin any more: also the next run finds what came back under it."""
    return pin.until < week_ago and is_seen(pin, plan.cutoff)


def _find_runs(
    run: Run,
    reader: ObjectReader,
    now: datetime,
    versions: Iterable[RunState],
    kept_deletions: Set[str],
    side: Iterable[Place],
    found: Superseded,
) -> None:
    """Find the folders of old runs of this repository that no version of the state names and no later run asks what
    they deleted, and of old runs beside collections."""
    days = run.plan.config.keep_runs_days
    assert days is not None
    states = list(versions)
    named = {state.run_uri for state in states}
    named |= {located.uri for state in states for located in state.sizes}
    kept = {uri.rstrip("/").rpartition("/")[2] for uri in named} | {run.plan.run_id} | kept_deletions
    places = [Place(OWN_RUNS, kept, partial(is_run_of, run)), *side]
    since = now - timedelta(days=days)
    for old in ordered_map(lambda place: find_old_folders(run, reader, place, since), places, len(places)):
        found.runs |= old.folders
        found.size_bytes += old.size_bytes
        found.folders_left += old.left
