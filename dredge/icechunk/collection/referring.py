"""Objects of this repository that virtual chunks of other repositories point to.

Locations are not resolved, as for a repository's own virtual chunks: an id that a location spells is kept.

Every manifest file counts, with or without a live snapshot: an expiration there can be undone, a commit in progress has
written its manifests, and refs of spec 1 beside the repo info may reach more.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from dredge.errors import DredgeError, NotFoundError
from dredge.icechunk.collection.index import refs_by_manifest, snapshot_rows
from dredge.icechunk.format.manifests import ids_in_locations
from dredge.icechunk.ids import is_id
from dredge.icechunk.repository import MANIFESTS, ids_in_config, read_history
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.parallel import ordered_map

_AT_ONCE = 16


def ids_in_referring(repositories: tuple[str, ...], options: StorageOptions | None = None) -> set[str]:
    """Return the ids that locations of virtual chunks of other repositories spell.

    Reads every live snapshot and every manifest of each.

    Args:
        repositories: URIs.
        options: how their stores are reached; None reads the environment.

    Raises:
        DredgeError: one of them cannot be read; what it names is unknown.
    """
    found: set[str] = set()
    for uri in repositories:
        reader = open_reader(uri, options)
        try:
            history = read_history(reader)
            refs = refs_by_manifest(snapshot_rows(reader, sorted(history.live())))
            names = {*refs, *_listed(reader)}
            for ids in ordered_map(partial(_named_by, reader, refs), sorted(names), _AT_ONCE):
                found.update(ids)
            found |= ids_in_config(reader)
        except DredgeError as error:
            error.add_note(f"{uri} is named in referring_repositories")
            raise
    return found


def _listed(reader: ObjectReader) -> set[str]:
    names = {
        key.removeprefix(MANIFESTS) for batch in reader.list(MANIFESTS) for key in batch["key"].to_pylist()
    }
    return {name for name in names if is_id(name)}


def _named_by(reader: ObjectReader, refs: Mapping[str, int], manifest: str) -> set[str]:
    key = MANIFESTS + manifest
    try:
        data = reader.get(key)
    except NotFoundError:
        if manifest in refs:
            raise
        return set()  # collected there since the listing
    return ids_in_locations(data, key, refs=refs.get(manifest))
