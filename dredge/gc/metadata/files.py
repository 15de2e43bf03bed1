"""What lies in `_lakefs/`: range and metarange files, and which commits name them.

metaranges of commits → the ranges they name
    every other file that is old enough: read, for only its content says what it is
        a table of a refs dump → kept · any other table → garbage · no table → none of ours
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from dredge.errors import FormatError, NotFoundError
from dredge.gc.insight.addresses import Amount
from dredge.gc.namespaces import METADATA
from dredge.lakefs.files.ranges import is_table_id, read_metarange
from dredge.lakefs.files.sstable import METARANGES
from dredge.lakefs.files.sstable.envelope import read_envelope
from dredge.storage import ObjectInfo, ObjectReader

KEPT, UNREACHABLE, YOUNG, DUMPS = "kept", "unreachable", "young", "dumps"
GARBAGE_RANGES, GARBAGE_METARANGES, DAMAGED, OTHER = (
    "garbage_ranges",
    "garbage_metaranges",
    "damaged",
    "other",
)
KINDS = {
    KEPT: "named by commits that branches or tags lead to, or that rules keep",
    UNREACHABLE: "named only by commits that no branch and no tag leads to and no rule keeps",
    YOUNG: "younger than the minimum age: a commit may be about to name them",
    GARBAGE_RANGES: "ranges that no commit names",
    GARBAGE_METARANGES: "metaranges that no commit names",
    DUMPS: "files of refs dumps",
    DAMAGED: "named like a table, and not readable as one",
    OTHER: "other files",
}
"""What files are, in the order in which people read it."""
_EXAMPLES_MAX = 10
_AT_ONCE = 4
"""Range files may be long, and are read whole."""


@dataclass(slots=True)
class Named:
    """Files that commits name, by name.

    Attributes:
        kept: by those that matter.
        unreachable: by others only.
        missing: metaranges that are named and not there.
    """

    kept: set[str]
    unreachable: set[str]
    missing: list[str]


@dataclass(slots=True)
class Sorted:
    """The files of `_lakefs/`, by what they are.

    Attributes:
        amounts: number and bytes, by kind.
        examples: names of a few, by kind.
        garbage: names of all files of the two kinds of garbage.
    """

    amounts: dict[str, Amount] = field(default_factory=lambda: {kind: Amount() for kind in KINDS})
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    garbage: dict[str, list[str]] = field(
        default_factory=lambda: {GARBAGE_METARANGES: [], GARBAGE_RANGES: []}
    )

    def add(self, kind: str, info: ObjectInfo) -> None:
        """Count a file."""
        self.amounts[kind].add(1, info.size)
        if kind in self.garbage:
            self.garbage[kind].append(info.key.removeprefix(METADATA))
        if len(self.examples[kind]) < _EXAMPLES_MAX:
            self.examples[kind].append(info.key.removeprefix(METADATA))


def find_named(reader: ObjectReader, kept: Collection[str], unreachable: Collection[str]) -> Named:
    """Read the metaranges of commits.

    Args:
        reader: on the storage namespace.
        kept: ids of the metaranges of commits that matter; the empty one is the content without entries.
        unreachable: ids of those of others.

    Raises:
        FormatError: one is damaged.
    """
    missing: list[str] = []
    of_kept = _closure(reader, kept, missing)
    return Named(of_kept, _closure(reader, set(unreachable) - of_kept, missing) - of_kept, sorted(missing))


def _closure(reader: ObjectReader, metaranges: Iterable[str], missing: list[str]) -> set[str]:
    """Metaranges, and the ranges that they name."""
    found: set[str] = set()
    for metarange_id in sorted(filter(None, metaranges)):
        found.add(metarange_id)
        key = METADATA + metarange_id
        try:
            metarange = read_metarange(reader.get(key), key, expected_id=metarange_id)
        except NotFoundError:
            missing.append(metarange_id)
            continue
        found.update(info.id for info in metarange.ranges)
    return found


def sort_files(reader: ObjectReader, files: Sequence[ObjectInfo], named: Named, cutoff: datetime) -> Sorted:
    """Say of each file directly in `_lakefs/` what it is.

    Args:
        reader: on the storage namespace.
        files: listed before the commits were read, so that what is committed meanwhile is named.
        named: by the commits.
        cutoff: files that were written then or later are young, whatever they are.
    """
    found = Sorted()
    unnamed: dict[str, ObjectInfo] = {}
    for info in files:
        name = info.key.removeprefix(METADATA)
        if name in named.kept:
            found.add(KEPT, info)
        elif name in named.unreachable:
            found.add(UNREACHABLE, info)
        elif not is_table_id(name):
            found.add(OTHER, info)
        elif info.last_modified >= cutoff:
            found.add(YOUNG, info)
        else:
            unnamed[info.key] = info
    for key, data in reader.get_many(list(unnamed), _AT_ONCE):
        found.add(_kind(data, key), unnamed[key])
    return found


def _kind(data: bytes, name: str) -> str:
    try:
        envelope = read_envelope(data, name, None, None)
    except FormatError:
        return DAMAGED
    if envelope.entity is not None:
        return DUMPS
    return GARBAGE_METARANGES if envelope.kind == METARANGES else GARBAGE_RANGES
