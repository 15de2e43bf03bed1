"""Read a repository's history from its store: the refs and snapshot files of spec 1, the repo info of spec 2.

repo                    spec 2 only; where it is, everything else about history is in it
refs/…/ref.json         spec 1 (may remain, unused, after a migration to spec 2)
snapshots/<id>  manifests/<id>  transactions/<id>  chunks/<id>
overwritten/…           earlier versions of `repo`, and of the configuration
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dredge.errors import FormatError, NotFoundError
from dredge.icechunk.format.envelope import LIMITS, Limits
from dredge.icechunk.format.refs import REFS_FOLDER, live_refs, parse_ref
from dredge.icechunk.format.repo_info import REPO_KEY, RepoInfo, SnapshotEntry, parse_repo_info
from dredge.icechunk.format.snapshots import parse_parentage
from dredge.icechunk.history import History
from dredge.icechunk.ids import is_id
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

SNAPSHOTS = "snapshots/"
MANIFESTS = "manifests/"
TRANSACTIONS = "transactions/"
CHUNKS = "chunks/"
OVERWRITTEN = "overwritten/"
READS_AT_ONCE = 32
FILES_A_RUN = 64
UNPARSED_BYTES_MAX = 256 << 10


def spec_version(reader: ObjectReader) -> int:
    """Tell which spec a repository has.

    Raises:
        NotFoundError: there is no Icechunk repository here.
    """
    try:
        reader.stat(REPO_KEY)
    except NotFoundError:
        if any(batch.num_rows for batch in reader.list(REFS_FOLDER)):
            return 1
        raise NotFoundError(
            f"{reader.uri}: no Icechunk repository (neither {REPO_KEY} nor {REFS_FOLDER})"
        ) from None
    return 2


def read_history(reader: ObjectReader, *, limits: Limits = LIMITS) -> History:
    """Read refs, snapshots, parents and times.

    Args:
        reader: on the repository.
        limits: sizes above which a file is refused.

    Returns:
        Spec 1: the snapshots that refs reach. Spec 2: all that the repo info lists.

    Raises:
        NotFoundError: no repository.
        FormatError: a file that matters is missing or cannot be trusted, or parents form a cycle.
    """
    if spec_version(reader) == 2:
        return history_of(parse_repo_info(reader.get(REPO_KEY), limits=limits))
    tips = read_refs(reader)
    snapshots = _reachable_snapshots(reader, sorted(set(tips.values())), limits)
    return History(
        spec_version=1,
        snapshots=snapshots,
        branches={name: tip for (kind, name), tip in tips.items() if kind == "branch"},
        tags={name: tip for (kind, name), tip in tips.items() if kind == "tag"},
    )


def history_of(info: RepoInfo) -> History:
    """Give the history that a repo info holds."""
    entries = {entry.id: entry for entry in info.snapshots}
    return History(2, entries, info.branches, info.tags, info.availability)


def read_refs(reader: ObjectReader) -> dict[tuple[str, str], str]:
    """Read the refs of spec 1.

    Returns:
        Tip by ("branch" or "tag", name).

    Raises:
        FormatError: a file below `refs/` that is no ref, or a ref that holds no id.
    """
    keys = [key for key in _keys(reader, REFS_FOLDER) if not key.endswith("/")]
    live = live_refs(keys)
    names = {key: ref for ref, key in live.items()}
    return {names[key]: parse_ref(data, key) for key, data in reader.get_many(list(live.values()))}


def read_snapshot_entry(reader: ObjectReader, snapshot: str, *, limits: Limits = LIMITS) -> SnapshotEntry:
    """Read one snapshot file of spec 1; raises FormatError when it is missing or damaged."""
    key = SNAPSHOTS + snapshot
    try:
        return _entry(reader.get(key), key, limits)
    except NotFoundError:
        raise FormatError(
            f"{reader.uri}/{key} is missing but part of a history. Nothing was changed. "
            "Delete the refs that need it, or restore the file."
        ) from None


def read_parsed[T](
    reader: ObjectReader, keys: Sequence[str], parse: Callable[[bytes, str], T], concurrency: int
) -> Iterator[T]:
    """Read many small files, several at once, and give what each says, in the order of the keys.

    Each thread takes a run of files, reads some and then parses them. One file at a time, the threads would
    spend more time on handing the interpreter to each other than on the files; on a local folder, where
    nothing is waited for, they do so whatever they take, so there one thread reads it all.

    Args:
        reader: on the repository.
        keys: of the files.
        parse: makes a value of a file's bytes and its key.
        concurrency: files read at once from a store that is not a local folder.

    Raises:
        NotFoundError: a file is not there.
    """

    def read(run: Sequence[str]) -> list[T]:
        found: list[T] = []
        waiting: list[tuple[bytes, str]] = []
        size = 0
        for key in run:
            waiting.append((reader.get(key), key))
            size += len(waiting[-1][0])
            if size > UNPARSED_BYTES_MAX:
                found += [parse(data, name) for data, name in waiting]
                waiting, size = [], 0
        return found + [parse(data, name) for data, name in waiting]

    at_once = concurrency if reader.is_remote else 1
    step = max(1, min(FILES_A_RUN, len(keys) // max(1, at_once)))
    runs = [keys[start : start + step] for start in range(0, len(keys), step)]
    for entries in ordered_map(read, runs, at_once):
        yield from entries


def _entry(data: bytes, key: str, limits: Limits) -> SnapshotEntry:
    return SnapshotEntry(*parse_parentage(data, key, limits=limits))


def _reachable_snapshots(
    reader: ObjectReader, tips: Sequence[str], limits: Limits
) -> dict[str, SnapshotEntry]:
    # A history is a chain: read one after the other, each file costs a round trip. So all files are read at
    # once; one that is damaged, or goes away meanwhile, matters only when a path leads to it.
    ahead: dict[str, SnapshotEntry] = {}
    keys = [key for key in _keys(reader, SNAPSHOTS) if is_id(key.removeprefix(SNAPSHOTS))]

    def parse(data: bytes, key: str) -> SnapshotEntry | None:
        try:
            return _entry(data, key, limits)
        except FormatError:
            return None

    try:
        for entry in read_parsed(reader, keys, parse, READS_AT_ONCE):
            if entry is not None:
                ahead[entry.id] = entry
    except NotFoundError:
        pass
    found: dict[str, SnapshotEntry] = {}
    for tip in tips:
        node: str | None = tip
        while node is not None and node not in found:
            found[node] = ahead.get(node) or read_snapshot_entry(reader, node, limits=limits)
            node = found[node].parent_id
    return found


def _keys(reader: ObjectReader, prefix: str) -> Iterator[str]:
    for batch in reader.list(prefix):
        yield from batch.column("key").to_pylist()
