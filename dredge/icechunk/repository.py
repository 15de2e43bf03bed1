"""Read a repository's history from its store: the refs and snapshot files of spec 1, the repo info of spec 2.

    repo                    spec 2 only: the whole history
    refs/…/ref.json         spec 1 (unused leftovers after an upgrade to spec 2)
    snapshots/<id>  manifests/<id>  transactions/<id>  chunks/<id>
    overwritten/…           earlier versions of `repo`, and of the configuration

If the repo info was replaced by an earlier version, it lacks newer snapshots. Each change first copies the repo info to
`overwritten/`, and adds an entry to its operations log, so every later log has the newest operation of each copy. A
copy whose newest operation is missing from the current log is later than the current repo info. A copy without a
following change (its writer was killed or lost a race) raises no alarm, because its version did exist. So a repo info
only one version behind is not detected; only the minimum age protects the files of the last change.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError
from dredge.icechunk.format import metadata
from dredge.icechunk.format.envelope import SPEC_BYTE, FileType, open_file
from dredge.icechunk.format.manifests import ids_in
from dredge.icechunk.history import MAIN, History
from dredge.icechunk.ids import ID_CHARS, is_id
from dredge.runs.parts import get_part_cache
from dredge.storage import ObjectInfo, ObjectReader, exists
from dredge.storage.parallel import at_once, ordered_map

SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TRANSACTIONS = "transactions/"
CHUNKS = "chunks/"
OBJECT_FOLDERS = {
    "snapshots": SNAPSHOTS,
    "transactions": TRANSACTIONS,
    "manifests": MANIFESTS,
    "chunks": CHUNKS,
}
"""Folder by kind, for objects with an id as name. Referring kinds precede the kinds of their references."""
OVERWRITTEN = "overwritten"
"""The kind of old copies of the repo info. Spec 2 writes one at every change."""
FOLDERS = {**OBJECT_FOLDERS, OVERWRITTEN: metadata.COPIES}
"""Folder by kind, in the order of deletion."""
NAMES = {
    "snapshots": "snapshots",
    "transactions": "transaction logs",
    "manifests": "manifests",
    "chunks": "chunks",
    OVERWRITTEN: "old repo infos",
}
"""Names of the kinds in messages."""
CONFIG_KEY = "config.yaml"
AT_ONCE = 16
"""Maximum number of parallel requests of a task."""
READS_AT_ONCE = 128
"""Maximum number of parallel requests for small files."""
FILES_PER_RUN = 64
UNPARSED_BYTES_MAX = 256 << 10
_STAMPS_EDITS = re.compile(r"ic-0\.2\.[0-9]")

_LISTED_MAX = 1000
_READ_MAX = 16


class KnownSnapshots(Struct):
    """Parents of snapshot files of spec 1: ETag of the file and entry, by id. The ETag reveals changes: an expiration
    rewrites such a file in place, and a person may restore an earlier one."""

    entries: dict[str, tuple[str, metadata.SnapshotEntry]] = field(default_factory=dict)


def spec_version(reader: ObjectReader) -> int:
    """Return the spec version of a repository. Raises NotFoundError: no repository; RefusedError: a repository of spec
    2 lacks its repo info, or the keys begin with "/"."""
    with at_once() as ask:
        has_copies = ask(_lists_any, reader, f"{metadata.COPIES}{metadata.REPO_KEY}.")
        has_refs = ask(_lists_any, reader, metadata.REFS_FOLDER)
        if exists(reader, metadata.REPO_KEY):
            return 2
    if has_copies.result():
        raise _no_repo_info(reader, f"{metadata.COPIES} has earlier versions of it")
    if has_refs.result():
        return 1
    if any(_lists_any(reader, f"/{key}") for key in (metadata.REPO_KEY, metadata.REFS_FOLDER)):
        # Releases before 2.1 wrote an empty prefix so (icechunk#2239).
        raise RefusedError(
            f"{reader.uri}: this repository was created at the root of the bucket by a release of Icechunk before 2.1,"
            " so its keys begin with '/'. Dredge does not collect this layout. Copy the objects to keys without the"
            " leading '/', below a prefix, and collect the copy."
        )
    raise NotFoundError(
        f"{reader.uri}: no Icechunk repository (neither {metadata.REPO_KEY} nor {metadata.REFS_FOLDER})"
    )


def _lists_any(reader: ObjectReader, prefix: str) -> bool:
    return any(batch.num_rows for batch in reader.list(prefix))


def _no_repo_info(reader: ObjectReader, why: str) -> RefusedError:
    # Refs of spec 1 may remain after an upgrade; they lack later commits.
    return RefusedError(
        f"{reader.uri}/{metadata.REPO_KEY} is missing, but {why}, so this is a repository of spec 2. Nothing was"
        " changed or deleted. Restore the file first."
    )


type SnapshotFiles = Mapping[str, ObjectInfo]
"""Listed snapshot files by id."""


def list_snapshots(reader: ObjectReader) -> SnapshotFiles:
    """List the snapshot files."""
    found: dict[str, ObjectInfo] = {}
    for batch in reader.list(SNAPSHOTS):
        for row in batch.to_pylist():
            if is_id(name := row["key"].removeprefix(SNAPSHOTS)):
                found[name] = ObjectInfo(**row)
    return found


def list_names(reader: ObjectReader, folder: str) -> set[str]:
    """List the names of the files in a folder."""
    return {key.removeprefix(folder) for batch in reader.list(folder) for key in batch["key"].to_pylist()}


def read_history(
    reader: ObjectReader, *, known: KnownSnapshots | None = None, files: Future[SnapshotFiles] | None = None
) -> History:
    """Read refs, snapshots, parents and times; on spec 1 of the snapshots reachable from refs. `known`: parents of
    snapshots in earlier runs; a file is not read again if its ETag is unchanged. `files`: the listed snapshot files;
    None lists them for spec 1. Raises NotFoundError: no repository; FormatError: an important file is missing or
    damaged, or parents form a cycle; RefusedError: main or the repo info is missing, or the repo info was replaced by
    an earlier version."""
    with at_once() as ask:
        keys = ask(_ref_keys, reader)
        version = spec_version(reader)
    if version == 2:
        copies = newest_copies(reader)  # first, so that none is younger than the repo info read next
        info = read_repo_info(reader)
        check_not_rolled_back(reader, info, copies)
        return with_restamped(reader, history_of(info))
    tips = _read_tips(reader, keys.result())
    with at_once() as ask:
        upgraded = ask(_refuse_upgraded, reader)
        try:
            _require_main_ref(reader, tips)
            listed = list_snapshots(reader) if files is None else files.result()
            snapshots = _reachable_snapshots(reader, sorted(set(tips.values())), known, listed)
        finally:
            upgraded.result()  # an upgrade explains missing files
    history = History(
        spec_version=1,
        snapshots=snapshots,
        branches={name: tip for (kind, name), tip in tips.items() if kind == "branch"},
        tags={name: tip for (kind, name), tip in tips.items() if kind == "tag"},
    )
    return with_restamped(reader, history)


def with_restamped(reader: ObjectReader, history: History) -> History:
    """Mark the snapshots that releases 0.2.0 to 0.2.9 gave the time of an expiration. Those releases changed the time
    of the snapshot above the root, so it looks newer than its children. Every release since 0.2.0 refuses a commit not
    newer than its parent, so a parent newer than its child got its time after the child's commit. If its own parent is
    a root and one of these releases wrote its file, the cause was such an expiration, and its children's times are
    right. Reads files only for snapshots not newer than their parent."""
    found = set()
    for parent in {parent.id: parent for _, parent in history.not_newer()}.values():
        root = history.snapshots.get(parent.parent_id or "")
        if root is None or root.parent_id is not None:
            continue
        key = SNAPSHOTS + parent.id
        try:
            writer = open_file(reader.get(key), key, FileType.SNAPSHOT).writer
        except NotFoundError:
            continue
        if _STAMPS_EDITS.fullmatch(writer):
            found.add(parent.id)
    return replace(history, restamped=frozenset(found)) if found else history


def history_of(info: metadata.RepoInfo) -> History:
    """Return the history in a repo info."""
    entries = {entry.id: entry for entry in info.snapshots}
    return History(2, entries, info.branches, info.tags, info.availability)


def read_repo_info(reader: ObjectReader) -> metadata.RepoInfo:
    """Read the repo info of spec 2; raises FormatError if it is damaged, RefusedError if it lacks main."""
    info = metadata.parse_repo_info(reader.get(metadata.REPO_KEY))
    _require_main(reader, info.branches, f"{metadata.REPO_KEY} does not list branch {MAIN}")
    return info


def ids_in_config(reader: ObjectReader) -> set[str]:
    """Read the ids in the repository's configuration: the prefix of a virtual chunk container may be a file."""
    with at_once() as ask:
        file = ask(reader.get, CONFIG_KEY)
        has_info = exists(reader, metadata.REPO_KEY)
    try:
        return ids_in([read_repo_info(reader).config if has_info else file.result()])
    except NotFoundError:
        return set()


def read_refs(reader: ObjectReader) -> dict[tuple[str, str], str]:
    """Read the refs of spec 1: tip by ("branch" or "tag", name). Raises RefusedError: no main, or a repo info
    exists."""
    tips = read_tips(reader)
    _refuse_upgraded(reader)
    _require_main_ref(reader, tips)
    return tips


def read_tips(reader: ObjectReader) -> dict[tuple[str, str], str]:
    """Read the refs of spec 1 like `read_refs`, without its checks."""
    return _read_tips(reader, _ref_keys(reader))


def _ref_keys(reader: ObjectReader) -> list[str]:
    batches = reader.list(metadata.REFS_FOLDER, on_skipped=_refuse_name)
    return [key for batch in batches for key in batch["key"].to_pylist() if not key.endswith("/")]


def _read_tips(reader: ObjectReader, keys: Sequence[str]) -> dict[tuple[str, str], str]:
    live = metadata.live_refs(keys)
    names = {key: ref for ref, key in live.items()}
    try:
        return {
            names[key]: metadata.parse_ref(data, key) for key, data in reader.get_many(list(live.values()))
        }
    except NotFoundError:
        _refuse_upgraded(reader)  # an upgrade removes refs
        raise


def _require_main_ref(reader: ObjectReader, tips: Collection[tuple[str, str]]) -> None:
    branches = [name for kind, name in tips if kind == "branch"]
    _require_main(reader, branches, f"{metadata.ref_key('branch', MAIN)} is missing")


def read_ref(reader: ObjectReader, kind: str, name: str) -> str | None:
    """Read the tip of a ref of spec 1; None if the ref is missing. Raises RefusedError if a repo info exists."""
    key = metadata.ref_key(kind, name)
    try:
        tip = metadata.parse_ref(reader.get(key), key)
    except NotFoundError:
        tip = None
    _refuse_upgraded(reader)
    return None if kind == "tag" and exists(reader, f"{key}{metadata.DELETED}") else tip


def _refuse_upgraded(reader: ObjectReader) -> None:
    # An upgrade writes the repo info and then removes refs, one by one or not at all: without a repo info, the refs
    # read before are complete.
    if exists(reader, metadata.REPO_KEY):
        raise RefusedError(
            f"{reader.uri} has {metadata.REPO_KEY}: it was upgraded to spec 2 during the run, so its refs of spec 1"
            " are outdated. Nothing more was changed or deleted. Start a new run."
        )


def _require_main(reader: ObjectReader, branches: Collection[str], what: str) -> None:
    # Without main the repository is damaged, and snapshots of main would look like garbage.
    if MAIN in branches:
        return
    where = "" if branches else ": there is no branch"
    raise RefusedError(
        f"{reader.uri}: {what}{where}. Icechunk never deletes main, and opens no repository without it. Nothing was"
        " changed or deleted. Restore main with the id of its last snapshot, then start a new run."
    )


def _refuse_name(name: str) -> None:
    raise FormatError(f"{name}: not the key of a branch or a tag")


def read_snapshot_entry(reader: ObjectReader, snapshot: str) -> metadata.SnapshotEntry:
    """Read a snapshot file of spec 1; raises FormatError for a missing or damaged file."""
    key = SNAPSHOTS + snapshot
    try:
        return _entry(reader.get(key), key)
    except NotFoundError:
        raise FormatError(
            f"{reader.uri}/{key} is missing, but a ref needs it. Nothing was changed. Restore the file, or delete the"
            " refs that need it."
        ) from None


def read_parsed[T](
    reader: ObjectReader,
    keys: Sequence[str],
    parse: Callable[[bytes, str], T],
    concurrency: int,
    get: Callable[[str], bytes] | None = None,
) -> Iterator[T]:
    """Read and parse many small files, several at once, in the order of the keys; NotFoundError if one is missing."""

    # Each thread takes a run of files, reads some and then parses them: with one file at a time, the threads would
    # spend more time on handing the interpreter to each other than on the files. On a local folder, without waiting
    # times, they do so with any number of files, so one thread reads all.
    def read(run: Sequence[str]) -> list[T]:
        found: list[T] = []
        waiting: list[tuple[bytes, str]] = []
        size = 0
        for key in run:
            waiting.append((get_file(key), key))
            size += len(waiting[-1][0])
            if size > UNPARSED_BYTES_MAX:
                found += [parse(data, name) for data, name in waiting]
                waiting, size = [], 0
        return found + [parse(data, name) for data, name in waiting]

    get_file = get or reader.get
    threads = concurrency if reader.is_remote else 1
    step = max(1, min(FILES_PER_RUN, -(-len(keys) // max(1, threads))))
    runs = [keys[start : start + step] for start in range(0, len(keys), step)]
    for entries in ordered_map(read, runs, threads):
        yield from entries


def _entry(data: bytes, key: str) -> metadata.SnapshotEntry:
    return metadata.SnapshotEntry(*metadata.parse_parentage(data, key))


def _reachable_snapshots(
    reader: ObjectReader, tips: Sequence[str], known: KnownSnapshots | None, files: SnapshotFiles
) -> dict[str, metadata.SnapshotEntry]:
    # A history is a chain: read one after the other, each file costs a round trip. So all files are read at once; a
    # damaged, unreadable or missing file matters only on a path. Files written since the listing are read on the path.
    tags = {node: info.etag for node, info in files.items()}
    proved = {} if known is None else {node: known.entries[node] for node in known.entries.keys() & tags}
    proved = {node: found for node, found in proved.items() if found[0] == tags[node]}
    ahead = {node: entry for node, (_, entry) in proved.items()}

    def parse(data: bytes, key: str) -> tuple[metadata.SnapshotEntry, bool] | None:
        try:
            found = _entry(data, key)
            if data[SPEC_BYTE] != 1:
                raise _no_repo_info(reader, f"{key} has spec {data[SPEC_BYTE]}")
            if (kept := get_part_cache(reader.uri)) is not None:
                kept.put(key, data)
            return found, known is not None and _has_tag(reader, key, data, tags.get(found.id))
        except FormatError:
            return None

    keys = [SNAPSHOTS + node for node in tags if node not in ahead]
    for read in read_parsed(reader, keys, parse, READS_AT_ONCE, partial(_get_or_empty, reader)):
        if read is not None:
            entry, is_proved = read
            ahead[entry.id] = entry
            if is_proved:
                proved[entry.id] = (str(tags[entry.id]), entry)
    if known is not None:
        known.entries = proved
    found: dict[str, metadata.SnapshotEntry] = {}
    for tip in tips:
        node: str | None = tip
        while node is not None and node not in found:
            found[node] = ahead.get(node) or read_snapshot_entry(reader, node)
            node = found[node].parent_id
    return found


def _get_or_empty(reader: ObjectReader, key: str) -> bytes:
    # The file may be unneeded: a missing or unreadable (archived) file is empty.
    try:
        return reader.get(key)
    except (NotFoundError, ConfigError):
        return b""


def _has_tag(reader: ObjectReader, key: str, data: bytes, tag: str | None) -> bool:
    # The file may be replaced after the listing and restored later: the tag must be made from the bytes, or be there
    # still.
    if tag is None:
        return False
    if hashlib.md5(data, usedforsecurity=False).hexdigest() == tag:
        return True
    try:
        return reader.stat(key).etag == tag
    except NotFoundError:
        return False


def newest_copies(reader: ObjectReader) -> list[str]:
    """Return the names of the newest copies of the repo info, newest first."""
    keys = (
        key
        for batch in reader.list(f"{metadata.COPIES}{metadata.REPO_KEY}.")
        for key in batch.column("key").to_pylist()
    )
    names = (key.removeprefix(metadata.COPIES) for key in islice(keys, _LISTED_MAX))
    return [name for name in names if metadata.written_at(name) is not None]


def check_not_rolled_back(reader: ObjectReader, info: metadata.RepoInfo, copies: list[str]) -> None:
    """Check that no copy outside the operations log is later than the current repo info; raises RefusedError."""
    if not info.updates:
        return
    logged = {update.operation for update in info.updates}
    named = {update.backup for update in info.updates} | {info.before_updates}
    oldest = info.updates[-1].updated_at
    unnamed = (name for name in copies if name not in named)
    for name in islice(unnamed, _READ_MAX):
        made = metadata.written_at(name)
        if made is None or metadata.micros(made) < oldest:
            return
        key = metadata.COPIES + name
        try:
            updates = metadata.parse_repo_info(reader.get(key), key).updates
        except NotFoundError:
            continue
        if updates and updates[0].updated_at >= oldest and updates[0].operation not in logged:
            raise RefusedError(
                f"{reader.uri}/{metadata.REPO_KEY} was replaced by an earlier version: the copy {key} has a later"
                f" operation ({updates[0].kind}). Nothing was changed or deleted. Restore the latest version; if the"
                f" current state is intended, remove the later copies from {metadata.COPIES}."
            )


_ROUNDED = timedelta(seconds=1)
_ROUNDED_MICROS = 1_000_000


def names_of(kind: str, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Extract the ids from the keys of a kind: the file names, or their ends for old repo infos."""
    return pc.utf8_slice_codeunits(keys, -ID_CHARS if kind == OVERWRITTEN else len(FOLDERS[kind]))


def is_old(last_modified: datetime, cutoff: datetime) -> bool:
    """Return whether an object was written before the cutoff, by the store's clock."""
    return (last_modified if last_modified.microsecond else last_modified + _ROUNDED) < cutoff


def is_old_column(times: pa.Array, cutoff: datetime) -> npt.NDArray[np.bool_]:
    """Compare many times with the cutoff; see `is_old`."""
    micros = times.cast(pa.int64()).to_numpy()
    micros = micros + np.where(micros % _ROUNDED_MICROS == 0, _ROUNDED_MICROS, 0)
    limit = pa.scalar(cutoff, pa.timestamp("us", tz="UTC")).cast(pa.int64()).as_py()
    found: npt.NDArray[np.bool_] = micros < limit
    return found
