"""The catalog: one service for each kind of API call, over one shared model.

    catalog.repositories   create, get, list, delete; metadata, branch protection    repositories.py
           .branches       create, get, list, delete, reset, diff                    branches.py
           .tags           create, get, list, delete                                 branches.py
           .commits        commit, look up, log                                      commits.py
           .merges         merge, revert, cherry-pick, diff of two refs              merges.py
           .reading        stat, get and list objects at any ref                     objects.py
           .objects        upload, stage, copy, delete objects of a branch           objects.py
           .addresses      hand out an address, link the object written there        objects.py
           .multiparts     multipart uploads                                         multiparts.py
           .imports        commit objects of other places, without copying           imports.py
           .garbage        rules, active commits, uncommitted addresses              garbage.py

Services share `CommitWriter` and `StagedWrites` (write a commit, a staged change), `Contents` and `ObjectBytes` (read
a path, and its bytes), and the records of model.py.
"""

import logging
import time
from collections.abc import Callable

from dredge.errors import DredgeError
from dredge.storage import ObjectWriter
from dredge.xid import new_xid
from lakefs_embedded.catalog.branches import BranchService, TagService
from lakefs_embedded.catalog.commits import CommitService, CommitWriter
from lakefs_embedded.catalog.contents import Contents, StagedWrites
from lakefs_embedded.catalog.entries import ObjectBytes, PathProvider
from lakefs_embedded.catalog.garbage import GarbageService
from lakefs_embedded.catalog.imports import ImportService
from lakefs_embedded.catalog.merges import MergeService
from lakefs_embedded.catalog.model import Clock, Namespaces, Refs, Settings, Staging
from lakefs_embedded.catalog.multiparts import MultipartService
from lakefs_embedded.catalog.objects import AddressService, ObjectService, ReadingService
from lakefs_embedded.catalog.repositories import RepositoryService
from lakefs_embedded.catalog.results import ExpiredRecords
from lakefs_embedded.catalog.signing import SignedUrls
from lakefs_embedded.catalog.tasks import Background, Tasks
from lakefs_embedded.catalog.tracked import Copies, HandedOut
from lakefs_embedded.committed.writing import SplitRule
from lakefs_embedded.kv import Store

log = logging.getLogger(__name__)


class Catalog:
    """lakeFS's data model on a key-value store and object storage.

    Safe for use from many threads; several catalogs, also in several processes, may share the stores.

    Args:
        open_namespace: opens a writer for a storage namespace URI, or for the folder of an address outside of it.
    """

    def __init__(
        self,
        kv: Store,
        open_namespace: Callable[[str], ObjectWriter],
        clock: Clock,
        settings: Settings | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings = settings or Settings()
        self.clock = clock
        self.refs = refs = Refs.open(kv, clock, settings)
        self.staging = staging = Staging.open(kv, refs, settings, sleep)
        self._background = Background(enabled=settings.background)
        self._handed_out, self._copies = HandedOut(kv), Copies(kv)

        namespaces = Namespaces(open_namespace)
        rule = SplitRule(raggedness=settings.range_raggedness)
        paths = PathProvider(clock, settings.slice_names_max)
        contents = Contents(refs, staging.areas, namespaces)
        object_bytes = ObjectBytes(namespaces)
        signed_urls = SignedUrls(namespaces, object_bytes, clock, settings)
        writes = StagedWrites(refs.branches, staging.areas, contents, settings.write_tries)
        commit_writer = CommitWriter(refs.commits, staging, contents, clock)
        tasks = Tasks(kv, clock, new_xid(clock()), self._background)

        self.repositories = RepositoryService(kv, refs, namespaces)
        self.branches = BranchService(refs, staging, namespaces, contents, settings.write_tries)
        self.tags = TagService(refs)
        self.commits = CommitService(refs, staging.areas, namespaces, commit_writer, rule)
        self.merges = MergeService(refs, namespaces, commit_writer, rule)
        self.reading = ReadingService(refs, contents, object_bytes, signed_urls)
        self.objects = ObjectService(
            refs, contents, writes, object_bytes, paths, self._copies, clock, settings
        )
        self.addresses = AddressService(refs, writes, paths, self._handed_out, signed_urls, clock, settings)
        self.multiparts = MultipartService(kv, refs, namespaces, contents, writes, paths, clock)
        self.imports = ImportService(
            kv,
            refs,
            self.repositories,
            namespaces,
            commit_writer,
            rule,
            self._background,
            clock,
            settings.import_from_repositories,
        )
        self.garbage = GarbageService(
            refs, staging.areas, namespaces, self._copies, signed_urls, tasks, clock, settings
        )

    def resume(self) -> None:
        """Finish interrupted work: repositories half created or half deleted, staging tokens to drop."""
        try:
            self.refs.repositories.settle()
        except DredgeError as error:
            log.warning("repositories half created or half deleted are left as they are: %s", error)
        self.staging.dropper.wake()

    def expire_tracked(self) -> ExpiredRecords:
        """Remove expired records: addresses too old to link, copies older than any prepare run.

        Called periodically, also by several servers at once.
        """
        now = self.clock()
        addresses = copies = 0
        for repository in self.refs.repositories.listed():
            addresses += self._handed_out.expire(repository, now - self.settings.link_expiry)
            copies += self._copies.expire(repository, now - self.settings.copy_expiry)
        return ExpiredRecords(addresses, copies)

    def close(self) -> None:
        """Wait for background work; the stores stay open."""
        self._background.join()
        self.staging.dropper.close()
