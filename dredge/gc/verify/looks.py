"""Looks for deleted objects again: which names are looked for, and with as few requests as their density allows.

What the store confirmed key by key needs no second listing of everything, so a sample of a bounded number of names is
looked for, and every name of which the store first gave no clear answer. Names are taken in runs of neighbours: one
page of a listing shows a thousand names, and of garbage that lies close many at once. The sweep deletes in another
order, so neighbours in name were in different requests. The same pages show living objects, which must be there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import batched, groupby

import pyarrow as pa

from dredge.errors import ConfigError, NotFoundError, UnavailableError
from dredge.gc.namespaces import DATA
from dredge.storage import ObjectReader
from dredge.storage.lookup import LOOKS_PER_PAGE, find_neighbours

_PAGE_NAMES = 900
"""Names that a run should span in the store: a little less than a page, because garbage is not spread evenly."""
_LISTED_MAX = 5 * _PAGE_NAMES
"""Objects that a run may list."""
_LOOKS_MIN = 200
_ONE_IN = 5
"""Of few deleted names one in so many is looked for: fifteen that were still there would be missed once in 28 runs."""
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


def length_of_runs(names: int, objects: int) -> int:
    """How many neighbours among some names one page of a listing is likely to span; 1 where looking them up costs less.

    Args:
        names: that somebody wants to know of, all over the namespace.
        objects: that were in the store before.
    """
    length = _PAGE_NAMES * names // max(objects, names, 1)
    return length if length >= LOOKS_PER_PAGE else 1


def looks_at(deleted: int, looks_max: int) -> int:
    """How many deleted names are looked for; all are when they are fewer.

    Args:
        deleted: how many there are.
        looks_max: how many at most.
    """
    return min(looks_max, max(_LOOKS_MIN, -(-deleted // _ONE_IN)))


def choose(
    names: Names, looks: int, length: int, chance: random.Random, beside: Iterable[str] = ()
) -> list[Names]:
    """Take runs of neighbours by chance until they have enough names together.

    Args:
        names: to choose from.
        looks: least number of names; when there are not so many, all are taken.
        length: of a run, at most. None goes from one folder into another: what a part of the ledger lacks between two
            folders may be most of the namespace, and would be listed.
        chance: makes the choice.
        beside: further names, which the same pages tell of: they are in the runs, and do not count.
    """
    wanted = set(names)
    together = sorted(wanted.union(beside))
    folders = (list(found) for _, found in groupby(together, lambda name: name.rpartition("/")[0]))
    runs: list[Names] = [
        run for folder in folders for run in batched(folder, length) if not wanted.isdisjoint(run)
    ]
    if looks < len(wanted):
        chance.shuffle(runs)
    chosen, count = list[Names](), 0
    for run in runs:
        if count >= looks:
            break
        chosen.append(run)
        count += len(wanted.intersection(run))
    return chosen


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
    if len(names) < LOOKS_PER_PAGE or not reader.is_remote:
        return Looked(len(names), [name for name in names if not lacks(reader, name)])
    there: list[str] = []
    asked = listed = 0
    for stretch in find_neighbours(reader, DATA, names):
        there += stretch.found["key"].to_pylist()
        asked, listed = asked + len(stretch.names), listed + stretch.listed
        if listed > _LISTED_MAX:
            break  # garbage is rare here, so the others cost less one by one
    there += [name for name in names[asked:] if not lacks(reader, name)]
    return Looked(len(names), there)


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
