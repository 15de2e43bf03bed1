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
from dredge.storage import ObjectReader
from dredge.storage.neighbours import find_neighbours

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
        return not _listed(reader, DATA, [address])
    return False


def _look(reader: ObjectReader, names: Names) -> Looked:
    if len(names) < _RUN_MIN or not reader.is_remote:
        return Looked(len(names), [name for name in names if not lacks(reader, name)])
    # Runs do not overlap, so all of them together never cost more than one listing of everything.
    return Looked(len(names), _listed(reader, DATA, names))


def _listed(reader: ObjectReader, prefix: str, names: Names) -> list[str]:
    """Those of some names, in order, that a listing from the first to the last shows."""
    stretches = find_neighbours(reader, prefix, names)
    return [name for stretch in stretches for name in stretch.found["key"].to_pylist()]


def still_there(reader: ObjectReader, gone: pa.Array, threads: int) -> list[str]:
    """Those of some addresses that the store has, all of them looked for.

    Args:
        reader: on the namespace.
        gone: addresses.
        threads: how many requests are made at once.
    """
    names = sorted(set(gone.to_pylist()))
    if not reader.is_remote:
        runs = [names[first : first + 64] for first in range(0, len(names), 64)]
        return look_for(reader, runs, threads).there
    with ThreadPoolExecutor(threads, thread_name_prefix="verify") as pool:
        found = pool.map(lambda folder: _in_folder(reader, *folder), _folders(names).items())
        return [address for hits in found for address in hits]


def _folders(names: Names) -> dict[str, list[str]]:
    """The names, by folder directly below `data/`; "" for those without a folder."""
    folders: dict[str, list[str]] = {}
    for name in names:
        head, slash, _ = name.removeprefix(DATA).partition("/")
        folders.setdefault(f"{DATA}{head}/" if slash else "", []).append(name)
    return folders


def _in_folder(reader: ObjectReader, folder: str, names: Names) -> list[str]:
    if folder:
        return _listed(reader, folder, names)
    wanted = set(names)
    return [info.key for info in reader.list_level(DATA).objects if info.key in wanted]
