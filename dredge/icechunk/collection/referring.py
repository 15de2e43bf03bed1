"""Objects of this repository that virtual chunks of other repositories point to.

Locations are not resolved, as for a repository's own virtual chunks: an id that a location spells is kept.
"""

from __future__ import annotations

from dredge.errors import DredgeError
from dredge.icechunk.collection.index import refs_by_manifest, snapshot_rows
from dredge.icechunk.format.manifests import parse_manifest
from dredge.icechunk.repository import MANIFESTS, ids_in_config, read_history
from dredge.storage import StorageOptions, open_reader


def ids_in_referring(repositories: tuple[str, ...], options: StorageOptions | None = None) -> set[str]:
    """Return the ids that locations of virtual chunks of other repositories spell.

    Reads every live snapshot and manifest of each.

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
            live = sorted(history.snapshots if history.spec_version == 2 else history.reachable())
            names = sorted(refs_by_manifest(snapshot_rows(reader, live)))
            for key, data in reader.get_many([MANIFESTS + name for name in names]):
                found.update(parse_manifest(data, key).virtual_ids(key))
            found |= ids_in_config(reader)
        except DredgeError as error:
            error.add_note(f"{uri} is named in referring_repositories")
            raise
    return found
