"""Records of lakeFS's key-value store that the API does not give: every commit, whether or not a ref leads to it."""

from __future__ import annotations

from dredge.errors import RefusedError
from dredge.gc.list_committed import Graph
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.namespaces import canonical_namespace
from dredge.kv.rows import RowView
from dredge.lakefs import Commit
from dredge.lakefs.files import records
from dredge.lakefs.files.records import REPOSITORIES_PARTITION, Repository, repository_key

_COMMITS = b"commits/"


def repository_record(view: RowView, location: str, repository: str, namespace: str) -> Repository:
    """Read the record of a repository.

    Args:
        view: on the store.
        location: of the store, for messages.
        repository: name.
        namespace: URI of its storage namespace, as the server says.

    Raises:
        RefusedError: it is not the server's store.
    """
    key = repository_key(repository)
    row = next(iter(view.scan(REPOSITORIES_PARTITION, key)), None)
    record = None if row is None or row.key != key else Repository.decode(row.value)
    if record is None or canonical_namespace(record.storage_namespace) != canonical_namespace(namespace):
        raise RefusedError(
            f"{location} has no repository {repository} on {namespace}: it is another installation's store. Name the"
            " server's own database."
        )
    return record


def all_commits(access: KVAccess, repository: str, namespace: str) -> Graph:
    """Read every commit of a repository.

    Args:
        access: to the store.
        repository: name.
        namespace: URI of its storage namespace.

    Raises:
        RefusedError: it is not the server's store.
        FormatError: a record cannot be read.
    """
    found: Graph = {}
    with access.open() as store, store.view() as view:
        partition = repository_record(view, store.location, repository, namespace).partition
        for row in view.scan(partition, _COMMITS):
            if not row.key.startswith(_COMMITS):
                break
            commit = _commit(records.Commit.decode(row.value))
            found[commit.id] = commit
    return found


def _commit(record: records.Commit) -> Commit:
    return Commit(record.id, record.parents, record.creation_date, record.metarange_id, record.version)
