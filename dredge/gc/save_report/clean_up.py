"""Removes superseded own files and old run folders at the end of a complete run.

    run folders                     older than `keep_runs_days`
    versions of the state           superseded for a week
    layers of counts                in no kept version
    pins                            ended a week ago; hashes of a killed restore without a pin
    parts of records of marks       of earlier marks, a week old
    parts of the pending list       of earlier lists, a week old: a waiting run uses the list it has read
    hashes of deleted objects       of earlier checks, a week old; records of deletions with the run's folder
    parts of the committed index    superseded by compaction a week ago, or of a killed run

All files of a version of the state that was the newest at any time of the last week stay. A running, waiting or
resumed run was planned on such a version, as its mark expires within hours. Each version refers to files of the
version before it and to new ones. So an old file outside these versions is never needed again, even if another run has
overtaken this one. Files are listed while this run's version is written, and its end may come a week after its mark:
its own counts stay as well.

Dredge's own files are below `_lakefs/retention/gc/`:

    dredge/counted/…  dredge/state/versions/…  dredge/state/distrusted/…
    dredge/index/parts/…  dredge/index/manifests/…  dredge/index/checkpoints/…
    dredge/referring/<repository>/index/…
    dredge/pins/<id>.json  dredge/pins/<id>/…
    dredge/witness/….parquet  dredge/pending/….parquet
    dredge/checked/….u64  dredge/deletions/…
    dredge/metadata/pending/….parquet
    unified/<id>/…              collections, with the restores of their deletions
    dredge/purges/<id>/…        purges
    dredge/metadata/<id>/…      collections of metadata

The deleter refuses all other keys: data of the repository, lakeFS's metadata, lease, pointer to the state, and copies
of deleted objects.

The folder of an old run is removed only if its plan proves a run of this repository in this namespace. Folders of
lakeFS's own collector, of other repositories, of unknown formats and in a user's run root stay, and so do folders with
copies of deleted objects or with a younger file. The plan is removed last, so an interrupted removal is found again.
"""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Set
from datetime import datetime, timedelta
from functools import partial

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError
from dredge.gc.index.store import CHECKPOINTS, MANIFESTS, PARTS, CommittedIndex
from dredge.gc.list_committed import COUNTED, ListCommittedOutput
from dredge.gc.namespaces import canonical_namespace
from dredge.gc.referring import FOLDER as REFERRING
from dredge.gc.run import METADATA_RUNS, PLAN, RUNS, STATE, Plan, Run, parse_plan
from dredge.gc.save_report.advance_state import StateOutput
from dredge.gc.state import RunState, StateStore
from dredge.gc.verify import VerifyOutput
from dredge.gc.witness.record import FOLDER as WITNESS
from dredge.gc.witness.record import parts_of, read_record
from dredge.runs.cleanup import (
    ListedFiles,
    OwnFilesDeleter,
    OwnFilesOutput,
    Superseded,
    find_superseded_versions,
    read_recent_versions,
    remove_own_files,
)
from dredge.runs.clock import check_clocks
from dredge.runs.folder import read_json, run_ids
from dredge.runs.pending.store import FOLDER as PENDING
from dredge.runs.pending.store import list_superseded_parts
from dredge.runs.versions import KEEP_DAYS_MIN
from dredge.storage import ObjectReader, ObjectWriter, StorageOptions, open_reader, open_writer
from dredge.storage.keys import is_plain
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.deletions import CHECKED, DELETIONS, Deletions, named_by_check, read_deletions
from dredge.undo.pins import PINS, Pin, Place, ended_pins, find_old_folders, is_seen, read_pins
from dredge.undo.ways import PURGES_FOLDER, QUARANTINE_FOLDER
from dredge.xid import is_xid

ROOT = "_lakefs/retention/gc"  # folder of the deleter, relative to the namespace
OWN = STATE.removeprefix(f"{ROOT}/")
OWN_RUNS = RUNS.removeprefix(f"{ROOT}/")
SIDE_RUNS = tuple(place.removeprefix(f"{ROOT}/") for place in (f"{STATE}/{PURGES_FOLDER}", METADATA_RUNS))
"""Folders of purges and collections of metadata."""
FILES_PENDING = f"{METADATA_RUNS.removeprefix(f'{STATE}/')}/{PENDING}"
"""Pending lists of range and metarange files, relative to `OWN`."""
_BOOKKEEPING = re.compile(
    rf"{OWN}/(?:counted|state/versions|state/distrusted|index/parts|index/manifests|index/checkpoints)/[^/]+"
    rf"|{OWN}/{REFERRING}/[^/]+/index/(?:parts|manifests|checkpoints)/[^/]+"
    rf"|{OWN}/{PINS}/[^/]+(?:/[^/]+)?"
    rf"|{OWN}/(?:{WITNESS}|{PENDING}|{FILES_PENDING})/[^/]+\.parquet"
    rf"|{OWN}/{CHECKED}/[^/]+\.u64"
    rf"|{OWN}/{DELETIONS}/[^/]+\.(?:u64|json)"
)
_OF_RUN = re.compile(
    rf"(?:{OWN_RUNS}|(?:{'|'.join(SIDE_RUNS)}))/([^/]+)/(?P<file>.+)",
    re.DOTALL,
)


def own_files_deleter(namespace: str, options: StorageOptions | None = None) -> OwnFilesDeleter:
    """Open the deleter of Dredge's own files of a repository; keys are relative to `ROOT`."""
    return OwnFilesDeleter(f"{namespace.rstrip('/')}/{ROOT}", is_own_file, options)


def is_own_file(key: str) -> bool:
    """Whether a key relative to `ROOT` is a file written only by Dredge and dispensable for later runs."""
    if not is_plain(key):
        return False
    run = _OF_RUN.fullmatch(key)
    if run is None or _BOOKKEEPING.fullmatch(key):
        return _BOOKKEEPING.fullmatch(key) is not None
    return is_xid(run[1]) and not run["file"].startswith(f"{QUARANTINE_FOLDER}/")


def side_places(run: Run, reader: ObjectReader) -> list[Place]:
    """Return the places of purges and collections of metadata, without their newest run; the reader is on `ROOT`."""

    def place(name: str) -> Place:
        # The next collection of metadata may delete files noted by the newest one.
        newest = run_ids(open_reader(f"{reader.uri}/{name}", run.options))[:1]
        return Place(name, set(newest), partial(_is_side_run_of, run))

    return list(ordered_map(place, SIDE_RUNS, len(SIDE_RUNS)))


def is_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    """Whether the plan in a folder proves a run of this repository in this namespace."""
    try:
        plan = parse_plan(read_json(runs, f"{run_id}/{PLAN}"))
    except (ConfigError, FormatError, NotFoundError):
        return False  # of another collector, or of another version
    return (
        plan.run_id == run_id
        and plan.repository == run.plan.repository
        and canonical_namespace(plan.namespace) == canonical_namespace(run.plan.namespace)
        and canonical_namespace(plan.run_uri) == canonical_namespace(f"{runs.uri}/{run_id}")
    )


def _is_side_run_of(run: Run, runs: ObjectReader, run_id: str) -> bool:
    try:
        plan = read_json(runs, f"{run_id}/{PLAN}")
        return (
            plan["run_id"] == run_id
            and plan["repository"] == run.plan.repository
            and canonical_namespace(plan["namespace"]) == canonical_namespace(run.plan.namespace)
        )
    except (ConfigError, FormatError, NotFoundError, AttributeError, KeyError, TypeError):
        return False


log = logging.getLogger("dredge")


def clean_up(run: Run, superseded: Callable[[], Superseded]) -> None:
    """Remove superseded files of a complete run, from `find_superseded`. A failure is only logged."""
    deleter = own_files_deleter(run.plan.namespace, run.options)
    inputs = (VerifyOutput,) if run.plan.dry_run else (StateOutput,)
    try:
        run.step(OwnFilesOutput, lambda record: remove_own_files(run, record, superseded(), deleter), inputs)
    except DredgeError as error:
        log.warning("Dredge's own files were not cleaned up; a later run tries again: %s", error)


def find_superseded(run: Run) -> Superseded:
    """Find the removable files. Removes no file."""
    reader = open_reader(f"{run.plan.namespace.rstrip('/')}/{ROOT}", run.options)
    now = run.store_now()
    # After a jump of the clock all files would be old.
    check_clocks((now - run.clock()).total_seconds(), run.plan.config.safety.clock_skew_seconds_max)
    week_ago = now - timedelta(days=KEEP_DAYS_MIN)
    # Listed first: files of a version written meanwhile are new, or in the version before it.
    files = ListedFiles.of(reader, f"{OWN}/", week_ago)
    of_files = open_reader(f"{run.plan.namespace.rstrip('/')}/{METADATA_RUNS}", run.options)
    with at_once() as ask:
        versions_read = ask(read_recent_versions, StateStore(run.state, run.options), files, f"{OWN}/")
        others = [
            ask(_superseded_index, run, run.state, f"{OWN}/", files),
            ask(_superseded_referring, run, files),
            ask(_superseded_marks, run, files),
            ask(list_superseded_parts, run.state, files, f"{OWN}/{PENDING}/"),
            ask(list_superseded_parts, of_files, files, f"{OWN}/{FILES_PENDING}/"),
        ]
        pins = ask(read_pins, run.state)
        deletions_read, checked = ask(read_deletions, run.state), ask(named_by_check, run.state)
        side = ask(side_places, run, reader)
        committed = run.folder.read_output(ListCommittedOutput)
    versions, deletions = versions_read.result(), deletions_read.result()
    found = Superseded()
    counted = [part for state in versions.values() for part in state.counted.parts]
    counted += [] if committed is None else committed.counted.parts
    found.bookkeeping += find_superseded_versions(files, f"{OWN}/", COUNTED, versions, counted)
    for other in others:
        found.bookkeeping += other.result()
    over = partial(_is_over, plan=run.plan, week_ago=week_ago)
    found.bookkeeping += ended_pins(pins.result(), files, f"{OWN}/", over)
    kept_deletions = _kept_deletions(run, deletions, now)
    found.bookkeeping += _superseded_checks(checked.result(), files, deletions, kept_deletions)
    found.size_bytes = sum(files.sizes[key] for key in found.bookkeeping)
    _find_runs(run, reader, now, versions.values(), kept_deletions, side.result(), found)
    return found


def _superseded_index(run: Run, state: ObjectWriter, own: str, files: ListedFiles) -> list[str]:
    """Parts of an index without counted ranges, and manifests and checkpoints before the newest checkpoint."""
    index, found = CommittedIndex.load(state, run.plan.namespace), list[str]()
    counting = {name for name, _ in index.places.values()}
    for name, part in index.parts.items():
        if name not in counting:
            found += {f"{own}{part.addresses.name}", f"{own}{part.sizes.name}"} & files.aged
    if index.distrusted:
        return found  # the parts of its unreadable manifests are unknown
    named = {item.name for part in index.parts.values() for item in (part.addresses, part.sizes)}
    found += [key for key in files.old(f"{own}{PARTS}/") if key.removeprefix(own) not in named]
    for place in (MANIFESTS, CHECKPOINTS):
        old = files.old(f"{own}{place}/")
        found += [key for key in old if key.removeprefix(own) in index.superseded]
    return found


def _superseded_referring(run: Run, files: ListedFiles) -> list[str]:
    found = list[str]()
    for folder in run.state.list_level(f"{REFERRING}/").folders:
        state = open_writer(f"{run.state.uri}/{folder.rstrip('/')}", run.options)
        found += _superseded_index(run, state, f"{OWN}/{folder}", files)
    return found


def _superseded_marks(run: Run, files: ListedFiles) -> list[str]:
    record = read_record(run.state).record  # after the listing, so its parts are not taken for old ones
    named = set() if record is None else {f"{OWN}/{key}" for key in parts_of(record)}
    return [key for key in files.old(f"{OWN}/{WITNESS}/") if key.endswith(".parquet") and key not in named]


def _kept_deletions(run: Run, deletions: Deletions, now: datetime) -> set[str]:
    """Runs with restorable deletions, or with an unreadable record; their ledgers are kept at any age."""
    days = run.plan.config.keep_runs_days
    assert days is not None
    young = now - timedelta(days=days)
    kept = {item.run_id for item in deletions.found if item.can_come_back(now) or item.at >= young}
    return kept | deletions.unread.keys()


def _superseded_checks(
    named_now: set[str], files: ListedFiles, deletions: Deletions, kept: set[str]
) -> Iterator[str]:
    """Hashes of earlier checks, and records of deletions not kept, each record before its hashes."""
    checked = {f"{OWN}/{key}" for key in named_now}
    yield from (key for key in files.old(f"{OWN}/{CHECKED}/") if key not in checked)
    named = {f"{OWN}/{item.hashes.key}" for item in deletions.found if item.run_id in kept}
    old = files.old(f"{OWN}/{DELETIONS}/")
    ended = {item.run_id for item in deletions.found} - kept
    yield from (key for key in old if key.removeprefix(f"{OWN}/{DELETIONS}/").removesuffix(".json") in ended)
    if not deletions.unread:  # the hashes of unreadable records are unknown
        yield from (key for key in old if key.endswith(".u64") and key not in named)


def _is_over(pin: Pin, plan: Plan, week_ago: datetime) -> bool:
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
    days = run.plan.config.keep_runs_days
    assert days is not None
    states = list(versions)
    named = {state.run_uri for state in states}
    named |= {located.uri for state in states for located in state.sizes}
    kept = {uri.rstrip("/").rpartition("/")[2] for uri in named} | {run.plan.run_id} | kept_deletions
    places = [Place(OWN_RUNS, kept, partial(is_run_of, run)), *side]
    since = now - timedelta(days=days)
    for old in ordered_map(lambda place: find_old_folders(run, reader, place, since), places, len(places)):
        found.folders |= old.folders
        found.size_bytes += old.size_bytes
        found.folders_left += old.left
