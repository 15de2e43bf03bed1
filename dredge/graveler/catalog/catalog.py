"""The catalog: every call of the data model, put together from one module a noun.

Calls on objects come in four layers: `objects` reads, `changes` adds writing, `addresses` adds linking,
`multiparts` adds objects that come in parts, `presigned` those whose parts a client writes itself.
"""

from __future__ import annotations

from dredge.graveler.catalog.branches import BranchCalls
from dredge.graveler.catalog.commits import CommitCalls
from dredge.graveler.catalog.dumps import DumpCalls
from dredge.graveler.catalog.garbage import GarbageCalls
from dredge.graveler.catalog.imports import ImportCalls
from dredge.graveler.catalog.presigned import PresignedCalls
from dredge.graveler.catalog.pulls import PullCalls
from dredge.graveler.catalog.repositories import RepositoryCalls
from dredge.graveler.catalog.tags import TagCalls


class Catalog(
    RepositoryCalls,
    BranchCalls,
    CommitCalls,
    TagCalls,
    PullCalls,
    ImportCalls,
    PresignedCalls,
    GarbageCalls,
    DumpCalls,
):
    """lakeFS's data model on a key-value store and object storage.

    Safe for use from many threads; several catalogs, also in several processes, may share the stores.

    Args:
        kv: mutable metadata.
        open_namespace: gives a writer for a storage namespace URI.
        clock: the time, aware UTC.
        settings: see Settings.
        sleep: waits so many seconds between tries of a commit.
    """
