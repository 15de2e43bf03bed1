"""Looks for deleted objects again: which names are looked for, and with as few requests as their density allows.

What the store confirmed key by key needs no second listing of everything, so a sample of a bounded number of names is
looked for, and every name of which the store first gave no clear answer. Names are taken in runs of neighbours: one
page of a listing shows a thousand names, and of garbage that lies close many at once. The sweep deletes in another
order, so neighbours in name were in different requests.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from dredge.errors import ConfigError, NotFoundError, UnavailableError
from dredge.gc.namespaces import DATA
from dredge.gc.sets.hashes import Hashes, contains, unite
from dredge.hashing import hash64
from dredge.storage import ObjectReader

_PAGE_NAMES = 900
"""Names that a run should span in the store: a little less than a page, because garbage is not spread evenly."""
_RUN_MIN = 4
"""Shorter runs are looked up one by one: that costs a store less than pages do."""

type Names = Sequence[str]


@dataclass(frozen=True, slots=True)
class Looked:
    """What looks gave.

    Attributes:
        names: how many names were looked for.
        there: those of them that the store has.
    """

    names: int
    there: list[str]


def length_of_runs(deleted: int, objects: int) -> int:
    """How many neighbouring deleted names one page of a listing is likely to span; 1 where looking them up costs less.

    Args:
        deleted: names that were deleted.
        objects: that were in the store before.
    """
    length = _PAGE_NAMES * deleted // max(objects, deleted, 1)
    return length if length >= _RUN_MIN else 1


def choose(names: Names, looks: int, length: int, chance: random.Random) -> list[Names]:
    """Take runs of neighbours by chance until they have enough names together.

    Args:
        names: to choose from.
        looks: least number of names; when there are not so many, all are taken.
        length: of a run.
        chance: makes the choice.
    """
    if looks <= 0:
        return []
    ordered = sorted(names)
    runs = [ordered[first : first + length] for first in range(0, len(ordered), length)]
    if looks < len(ordered):
        runs = chance.sample(runs, min(len(runs), -(-looks // length) + 1))
    return list(runs)


def look_for(reader: ObjectReader, runs: Sequence[Names], threads: int) -> Looked:
    """Look for runs of names.

    Args:
        reader: on the namespace.
        runs: of names in the order of their bytes.
        threads: how many requests are made at once.
    """
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = list(pool.map(lambda names: _look(reader, names), runs))
    return Looked(sum(item.names for item in found), [name for item in found for name in item.there])


def lacks(reader: ObjectReader, address: str) -> bool:
    """Whether the store does not have an object; one that it will not describe is looked for in a listing."""
    try:
        reader.stat(address)
    except NotFoundError:
        return True
    except (ConfigError, UnavailableError):
        return not _listed(reader, [address])
    return False


def _look(reader: ObjectReader, names: Names) -> Looked:
    if len(names) < _RUN_MIN or not reader.is_remote:
        return Looked(len(names), [name for name in names if not lacks(reader, name)])
    # Runs do not overlap, so all of them together never cost more than one listing of everything.
    return Looked(len(names), _listed(reader, names))


def _listed(reader: ObjectReader, names: Names) -> list[str]:
    """Those of some names, in order, that a listing from the first to the last shows."""
    wanted = set(names)
    # The first name itself must be listed too, so the listing starts after what is one character shorter.
    listed = reader.list(DATA, names[0][:-1], names[-1] + "\0")
    return sorted(name for batch in listed for name in wanted & set(batch["key"].to_pylist()))


def still_there(reader: ObjectReader, gone: pa.Array, threads: int) -> list[str]:
    """Those of some addresses that the store has, all of them looked for.

    Args:
        reader: on the namespace.
        gone: addresses.
        threads: how many requests are made at once.
    """
    names = sorted(set(gone.to_pylist()))
    if not reader.is_remote:
        return look_for(
            reader, [names[first : first + 64] for first in range(0, len(names), 64)], threads
        ).there
    hashes, wanted = unite([hash64(gone)]), set(names)
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = pool.map(lambda folder: _hits(reader, folder, hashes, wanted), _folders(names).items())
        return [address for hits in found for address in hits]


def _folders(names: Names) -> dict[str, tuple[str, str]]:
    """First and last of the names, by folder directly below `data/`; "" for names without a folder."""
    bounds: dict[str, tuple[str, str]] = {}
    for name in names:
        head, slash, _ = name.removeprefix(DATA).partition("/")
        folder = f"{DATA}{head}/" if slash else ""
        bounds[folder] = (bounds[folder][0] if folder in bounds else name, name)
    return bounds


def _hits(
    reader: ObjectReader, folder: tuple[str, tuple[str, str]], hashes: Hashes, names: set[str]
) -> list[str]:
    prefix, (first, last) = folder
    if not prefix:
        return [info.key for info in reader.list_level(DATA).objects if info.key in names]
    hits: list[str] = []
    for batch in reader.list(prefix, first[:-1], last + "\0"):
        keys = batch["key"]
        hit = contains(hashes, hash64(keys))
        if hit.any():
            hits.extend(key for key in keys.filter(pa.array(hit)).to_pylist() if key in names)
    return hits
