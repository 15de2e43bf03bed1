"""Objects kept without a live snapshot: pinned, or used by other repositories' virtual chunks, or needed by these.

A pin holds restored objects. A restored snapshot also needs manifests and chunks live at its deletion, but perhaps
released since. A virtual chunk may be a range of a file of any kind.

    snapshots → their ancestors, logs, manifests ─┐
    manifests ────────────────────────────────────┴→ chunks, and files with virtual chunks

A missing or damaged file among these is no error, because a pin makes no object live.

Locations of virtual chunks are not resolved: every id in a location is kept. Every manifest file of a referring
repository counts, even without a live snapshot: an expiration there can be undone, a commit in progress has written its
manifests, and refs of spec 1 beside the repo info may reach more.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from dredge.errors import ConfigError, DredgeError, FormatError, NotFoundError
from dredge.hashing import hash64
from dredge.icechunk import repository
from dredge.icechunk.collection.index import refs_by_manifest, snapshot_rows
from dredge.icechunk.collection.outputs import MarkOutput
from dredge.icechunk.collection.run import Run
from dredge.icechunk.format.manifests import ids_in_locations, parse_manifest
from dredge.icechunk.format.metadata import parse_snapshot
from dredge.icechunk.ids import encode_ids, hash_ids, hashes_of_names, is_id
from dredge.sets.hashes import NONE, Hashes, contains, read_hashes, to_bytes, unite, write_hashes
from dredge.sets.live import LocatedSet, ShardedSet, in_any
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.parallel import at_once, ordered_map
from dredge.undo.protecting import is_archived

_SNAPSHOTS, _LOGS, _MANIFESTS, _CHUNKS = (
    repository.OBJECT_FOLDERS[kind] for kind in ("snapshots", "transactions", "manifests", "chunks")
)


def ids_outside_manifests(run: Run) -> set[str]:
    """Read the ids in the repository's configuration and in referring repositories."""
    with at_once() as ask:
        referring = ask(ids_in_referring, run.plan.config.referring, run.options)
        found = repository.ids_in_config(run.reader)
    return found | referring.result()


type Kept = tuple[tuple[LocatedSet, ...], set[str]]
"""Pinned objects, and the ids of `ids_outside_manifests`."""


def read_kept(run: Run) -> Kept:
    """Read the pins, and the ids outside manifests."""
    with at_once() as ask:
        pins = ask(run.pinned)
        outside = ids_outside_manifests(run)
    return pins.result(), outside


def pinned_with_needs(run: Run, mark: MarkOutput, step: str, kept: Kept) -> tuple[LocatedSet, ...]:
    """Return key hashes of kept objects (from `read_kept`), of unreachable files with virtual chunks, and of their
    needs."""
    pins, outside = kept
    virtual = unite([read_hashes(run.folder, mark.virtual), hash_ids(outside)])
    if not pins and not len(virtual):
        return ()
    held = {
        key
        for kind in repository.FOLDERS
        if kind != "chunks"
        for key in _held(run, mark, kind, pins, virtual)
    }
    held |= {_CHUNKS + name for name in outside}
    return (*pins, with_needs(run, f"{step}/_needed_by_pinned", held))


def with_needs(run: Run, name: str, kept: Collection[str], *, passes_archived: bool = False) -> LocatedSet:
    """Write hashes of the keys of some snapshots and manifests, and of the objects that these need."""
    needed = _needed(run, kept, passes_archived)
    digest = hashlib.sha256(to_bytes(needed)).hexdigest()[:16]
    return LocatedSet(
        run.folder.uri, ShardedSet(0, {0: write_hashes(run.folder, f"{name}-{digest}.u64", needed)})
    )


def _needed(run: Run, kept: Collection[str], passes_archived: bool) -> Hashes:
    get = partial(_get_unless_archived, run.reader) if passes_archived else run.reader.get
    keys = {key for key in kept if key.startswith(_SNAPSHOTS)}
    manifests, waiting = {key for key in kept if key.startswith(_MANIFESTS)}, set(keys)
    while waiting:
        found = [
            item for item in ordered_map(partial(_named_by, get), sorted(waiting), repository.AT_ONCE) if item
        ]
        manifests |= {_MANIFESTS + manifest for _, named in found for manifest in named}
        waiting = {_SNAPSHOTS + parent for parent, _ in found if parent is not None} - keys
        keys |= waiting
    logs = {_LOGS + key.removeprefix(_SNAPSHOTS) for key in keys}
    found_chunks = ordered_map(partial(_chunks_of, get), sorted(manifests), repository.AT_ONCE)
    return unite([hash64(pa.array(sorted({*kept} | keys | logs | manifests), pa.string())), *found_chunks])


def _held(
    run: Run, mark: MarkOutput, kind: str, pins: Sequence[LocatedSet], virtual: Hashes
) -> Iterator[str]:
    live = NONE if kind == repository.OVERWRITTEN else read_hashes(run.folder, mark.live(kind))
    for batch in run.reader.list(repository.FOLDERS[kind]):
        ids, is_id = hashes_of_names(repository.names_of(kind, batch["key"]))
        (held,) = in_any(pins, [hash64(batch["key"])], its_shards_only=True)
        held |= is_id & contains(virtual, ids) & ~contains(live, ids)
        yield from batch["key"].filter(pa.array(held)).to_pylist()


def _named_by(get: Callable[[str], bytes], key: str) -> tuple[str | None, list[str]] | None:
    try:
        found = parse_snapshot(get(key), key)
    except (NotFoundError, FormatError):
        return None
    return found.parent_id, [info.id for info in found.manifests]


def _chunks_of(get: Callable[[str], bytes], key: str) -> Hashes:
    try:
        found = parse_manifest(get(key), key)
    except (NotFoundError, FormatError):
        return NONE
    try:
        virtual = pa.array(found.virtual_ids(key), pa.string())
    except FormatError:  # its native chunks stay all the same
        virtual = pa.array([], pa.string())
    named = [
        (_CHUNKS, encode_ids(found.native_ids)),
        *((folder, virtual) for folder in repository.OBJECT_FOLDERS.values()),
    ]
    return unite([hash64(pc.binary_join_element_wise(folder, names, "")) for folder, names in named])


def _get_unless_archived(reader: ObjectReader, key: str) -> bytes:
    # An archived file counts as missing.
    try:
        return reader.get(key)
    except ConfigError as error:
        if not is_archived(error):
            raise
        raise NotFoundError(str(error)) from None


def ids_in_referring(repositories: tuple[str, ...], options: StorageOptions | None = None) -> set[str]:
    """Read every live snapshot and every manifest of other repositories, and return the ids in locations of virtual
    chunks. Raises DredgeError: one of the repositories cannot be read."""
    found: set[str] = set()
    for uri in repositories:
        reader = open_reader(uri, options)
        try:
            history = repository.read_history(reader)
            refs = refs_by_manifest(snapshot_rows(reader, sorted(history.live())))
            names = {*refs, *filter(is_id, repository.list_names(reader, repository.MANIFESTS))}
            for ids in ordered_map(partial(_read_referring, reader, refs), sorted(names), repository.AT_ONCE):
                found.update(ids)
            found |= repository.ids_in_config(reader)
        except DredgeError as error:
            error.add_note(f"the setting referring_repositories lists {uri}")
            raise
    return found


def _read_referring(reader: ObjectReader, refs: Mapping[str, int], manifest: str) -> set[str]:
    key = repository.MANIFESTS + manifest
    try:
        data = reader.get(key)
    except NotFoundError:
        if manifest in refs:
            raise
        return set()  # collected there since the listing
    return ids_in_locations(data, key, refs=refs.get(manifest))
