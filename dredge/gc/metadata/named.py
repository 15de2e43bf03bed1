"""Which files of `_lakefs/` some commit names, as far as anybody can tell: read from the key-value store's records.

Every commit counts, also one that no branch leads to and no rule keeps: its record can be asked for, and whoever does
needs its files. So does what imports made. A metarange file that is young, or whose import has not ended, may be about
to become a commit's, so what it names counts as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dredge.errors import FormatError, NotFoundError
from dredge.gc.mark_uncommitted import KVAccess, RepositoryRecords, Standing, look
from dredge.gc.metadata.history import Place, read_work
from dredge.gc.namespaces import METADATA
from dredge.lakefs import LakeFS
from dredge.lakefs.files.ranges import read_metarange
from dredge.storage import ObjectReader
from dredge.storage.parallel import ordered_map

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Asking:
    """Whose records are read.

    Attributes:
        client: the lakeFS server.
        plan: the repository.
        access: to lakeFS's key-value store.
    """

    client: LakeFS
    plan: Place
    access: KVAccess


@dataclass(slots=True)
class Names:
    """What commits name at one time.

    Attributes:
        files: names of range and metarange files.
        missing: metaranges of commits whose files are not there, so that what they name is unknown.
        at_work: imports and tasks that have not ended, in words.
        standing: what the records are worth.
    """

    files: set[str]
    missing: list[str]
    at_work: list[str]
    standing: Standing


@dataclass(slots=True)
class NamesReader:
    """Finds what commits name, again and again; a metarange is read once.

    Attributes:
        asking: whose records are read.
        reader: on the storage namespace.
        ranges: ids of the ranges of each metarange that was read.
    """

    asking: Asking
    reader: ObjectReader
    ranges: dict[str, list[str]] = field(default_factory=dict)

    def read(self) -> Names:
        """Find what is named now.

        Raises:
            RefusedError: the key-value store is another installation's.
            FormatError: a record or a metarange is damaged.
        """
        (metaranges, at_work), standing = look(self.asking, _read_records, self.asking.access)
        files, missing = self.closure(metaranges)
        return Names(files, missing, at_work, standing)

    def closure(self, metaranges: Iterable[str]) -> tuple[set[str], list[str]]:
        """Metaranges and the ranges that they name, and those metaranges that are not there."""
        wanted = sorted(set(filter(None, metaranges)))
        new = [item for item in wanted if item not in self.ranges]
        missing = []
        for metarange_id, found in zip(new, ordered_map(self._ranges_of, new, _AT_ONCE), strict=True):
            if found is None:
                missing.append(metarange_id)
            else:
                self.ranges[metarange_id] = found
        named = (item for metarange_id in wanted for item in self.ranges.get(metarange_id, []))
        return {*wanted, *named}, missing

    def _ranges_of(self, metarange_id: str) -> list[str] | None:
        key = METADATA + metarange_id
        try:
            found = read_metarange(self.reader.get(key), key, expected_id=metarange_id)
        except NotFoundError:
            return None
        return [info.id for info in found.ranges]

    def of_tables(self, names: Sequence[str]) -> set[str]:
        """Names of ranges in those of some files that are metaranges.

        Raises:
            NotFoundError: a file is not there.
        """
        found: set[str] = set()
        for key, data in self.reader.get_many([METADATA + name for name in names], _AT_ONCE):
            try:
                metarange = read_metarange(data, key)
            except FormatError:
                continue  # a range, or something else
            found.update(info.id for info in metarange.ranges)
        return found


def _read_records(records: RepositoryRecords) -> tuple[set[str], list[str]]:
    # What is at work before commits: what ends meanwhile has written its commit by then.
    named, at_work = read_work(records)
    records.branches()  # their heads show whose store it is
    return named | {commit.metarange_id for commit in records.commits().values()}, at_work
