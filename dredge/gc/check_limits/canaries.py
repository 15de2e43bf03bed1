"""Canaries: objects that are known to live because a branch shows them. None of them may be a candidate.

They are asked of the server's ordinary object listing, which reads staging and commits together. So they are
independent of everything the marks were made from, and catch what a completeness proof cannot: wrong
addresses, a wrong live set, rows that a server lost. Where to look comes from anywhere (the keys of a head's ranges,
lists of changes); which address lies there only the server's answer says.

They are spread over the whole key space, by seed of the run, so that other runs look at other places:

    committed   places all over the head of each chosen branch: a range by chance, weighted by its records, and a
                record of it by chance; some objects are listed from there
    staged      of each chosen branch, some of its first changes by chance, and the changes behind those places
    the ends    the first objects of each chosen branch
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dredge.errors import FormatError, NotFoundError
from dredge.gc.check_limits.guesses import between
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs import Change, ObjectStats, Ref
from dredge.lakefs.files.addresses import answer_readings
from dredge.lakefs.files.ranges import RangeInfo, read_metarange
from dredge.lakefs.files.sstable import RANGES, SeekableTable
from dredge.runs.summary import PartInfo
from dredge.sets.hashes import contains, read_hashes
from dredge.storage import ObjectReader, exists
from dredge.storage.keys import is_text

_AT_ONCE = 64
_FROM_A_PLACE = 4
"""Objects that are listed from each place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is read for a sample.

    Attributes:
        page: objects or changes of one question at most.
        decoded_bytes: ranges are read to choose among their records until they have this size together; of others
            only the ends are known, and places between them are guessed.
        decoded_files: and at most so many of them: ranges of a few records each are read one request at a time, and
            what keys look like the ends tell as well.
    """

    page: int = 1000
    decoded_bytes: int = 4 << 20
    decoded_files: int = 16


_SIZES = Sizes()


@dataclass(frozen=True, slots=True)
class Canary:
    """A living object.

    Attributes:
        address: key relative to the namespace.
        branch: that shows it.
        path: under which it does.
        others: other keys that the server may mean by its answer.
    """

    address: str
    branch: str
    path: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Somewhere behind a path of a branch."""

    branch: str
    after: str
    amount: int


def sample(run: Run, seed: str, sizes: Sizes = _SIZES) -> list[Canary]:
    """Take living objects of some branches from all over their key space.

    Args:
        run: this run.
        seed: makes the choice repeatable, together with the run's id.
        sizes: how much is read.
    """
    plan = run.plan
    safety = plan.config.safety
    chance = random.Random(f"{plan.run_id}-{seed}")
    branches = _choose(run, chance)
    # What few branches leave of the number of looks goes to those that there are.
    each = safety.canary_objects * max(1, safety.canary_branches) // max(1, len(branches))
    each = max(1, min(each, 20 * safety.canary_objects) // 3)
    places = [_Place(branch.id, "", min(each, sizes.page)) for branch in branches]
    places += _places(run, branches, each, chance, sizes)
    places = list(dict.fromkeys(places))  # a small branch has fewer places than there are looks
    shown = _spread(lambda place: _list(run, place), places)
    changed = _changed(run, branches, places, each, chance, sizes.page)
    found = [(place.branch, stats) for place, answer in zip(places, shown, strict=True) for stats in answer]
    for branch, answer in zip(
        (branch for branch, _ in changed), _spread(lambda item: _stat(run, *item), changed), strict=True
    ):
        found.extend((branch, stats) for stats in answer)
    return list(_canaries(found, plan.namespace))


def _choose(run: Run, chance: random.Random) -> list[Ref]:
    """The default branch, and others by chance."""
    plan = run.plan
    branches = run.client.branches(plan.repository)
    main = [branch for branch in branches if branch.id == plan.default_branch]
    others = [branch for branch in branches if branch.id != plan.default_branch]
    count = min(len(others), max(0, plan.config.safety.canary_branches - len(main)))
    return [*main, *chance.sample(others, count)]


def _places(
    run: Run, branches: Sequence[Ref], each: int, chance: random.Random, sizes: Sizes
) -> list[_Place]:
    """Places all over the heads of branches."""
    commits = list(dict.fromkeys(branch.commit_id for branch in branches))
    metaranges = dict(zip(commits, _spread(lambda commit: _metarange_of(run, commit), commits), strict=True))
    distinct = sorted({found for found in metaranges.values() if found})
    ranges_of = dict(zip(distinct, _spread(lambda found: _ranges_of(run, found), distinct), strict=True))
    heads = [(branch, ranges_of.get(metaranges[branch.commit_id], ())) for branch in branches]
    chosen = [
        (branch, item)
        for branch, ranges in heads
        if ranges
        for item in chance.choices(ranges, [max(1, item.count) for item in ranges], k=each)
    ]
    tables = _tables(run, [item for _, item in chosen], chance, sizes)
    return [
        _Place(branch.id, _before_some_record(item, tables, chance).decode("utf-8", "ignore"), _FROM_A_PLACE)
        for branch, item in chosen
    ]


def _before_some_record(item: RangeInfo, tables: Mapping[str, SeekableTable], chance: random.Random) -> bytes:
    """A key right before that of some record of a range."""
    if item.id in tables:
        try:
            after = tables[item.id].place(chance.random())
            return item.min_key[:-1] if after is None else after
        except FormatError:
            pass  # the place is guessed; what is wrong with the file is for others to say
    return between(item.min_key, item.max_key, chance)


def _metarange_of(run: Run, commit_id: str) -> str:
    """The metarange of a commit; "" when there is none, or it cannot be told, which is for others to say."""
    try:
        return run.client.commit(run.plan.repository, commit_id).metarange_id
    except NotFoundError:
        return ""


def _ranges_of(run: Run, metarange_id: str) -> tuple[RangeInfo, ...]:
    """The ranges of a metarange; none when it cannot be read, which is for others to say."""
    key = METADATA + metarange_id
    try:
        return read_metarange(run.reader.get(key), key).ranges
    except (NotFoundError, FormatError):
        return ()


def _tables(
    run: Run, ranges: Iterable[RangeInfo], chance: random.Random, sizes: Sizes
) -> dict[str, SeekableTable]:
    """Some of the ranges, by id."""
    distinct = list({item.id: item for item in ranges}.values())
    chance.shuffle(distinct)
    left, small = sizes.decoded_bytes, list[str]()
    for item in distinct:
        if item.estimated_size <= left and len(small) < sizes.decoded_files:
            left -= item.estimated_size
            small.append(item.id)
    found = {}
    try:
        for key, data in run.reader.get_many([METADATA + item for item in small]):
            table = SeekableTable(data, key, RANGES)
            if table.count:
                found[key.removeprefix(METADATA)] = table
    except (NotFoundError, FormatError):
        pass  # the places are guessed; what is wrong with the file is for others to say
    return found


def _changed(
    run: Run, branches: Sequence[Ref], places: Sequence[_Place], each: int, chance: random.Random, page: int
) -> list[tuple[str, str]]:
    """Branch and path of some uncommitted objects."""
    repository = run.plan.repository

    def changes(branch: str, amount: int, after: str) -> list[Change]:
        try:
            return run.client.changes(repository, branch, amount, after)
        except NotFoundError:
            return []  # the branch went away meanwhile

    found: list[tuple[str, str]] = []
    answers = _spread(lambda branch: changes(branch.id, page, ""), branches)
    more: list[_Place] = []
    for branch, answer in zip(branches, answers, strict=True):
        paths = [change.path for change in answer if change.type != "removed"]
        found.extend((branch.id, path) for path in chance.sample(paths, min(len(paths), each)))
        if len(answer) == page:
            behind = [
                place for place in places if place.branch == branch.id and place.after > answer[-1].path
            ]
            more += [*behind, _Place(branch.id, answer[-1].path, _FROM_A_PLACE)]
    behind_places = _spread(lambda place: changes(place.branch, _FROM_A_PLACE, place.after), more)
    for place, answer in zip(more, behind_places, strict=True):
        found.extend((place.branch, change.path) for change in answer if change.type != "removed")
    return list(dict.fromkeys(found))


def _list(run: Run, place: _Place) -> list[ObjectStats]:
    try:
        return run.client.objects(run.plan.repository, place.branch, place.after, place.amount)
    except NotFoundError:
        return []  # the branch went away meanwhile


def _stat(run: Run, branch: str, path: str) -> list[ObjectStats]:
    try:
        return [run.client.stat(run.plan.repository, branch, path)]
    except NotFoundError:
        return []  # removed since


def _canaries(found: Iterable[tuple[str, ObjectStats]], namespace: str) -> Iterable[Canary]:
    """Each address once."""
    canaries: dict[str, Canary] = {}
    for branch, stats in found:
        keys = [key for key in answer_readings(stats.address, namespace) if is_text(key)]
        for address in keys:  # others no store lists
            others = tuple(key for key in keys if key != address)
            canaries.setdefault(address, Canary(address, branch, stats.path, others))
    return canaries.values()


def _spread[T, R](ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Ask about some items at once; the first error ends it without beginning the rest."""
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="canaries") as pool:
        return list(pool.map(ask, items))  # which takes back what was not begun


def meant(run: Run, canary: Canary) -> list[str]:
    """Other keys in the store that the server may mean by its answer."""
    keys = keys_in_store(run.reader, (canary.address, *canary.others))
    return [key for key in keys if key != canary.address]


def keys_in_store(reader: ObjectReader, keys: Sequence[str]) -> list[str]:
    """Those of some keys that are in the store, and some with a query behind one of them, which a server leaves out."""
    found = [key for key in keys if exists(reader, key)]
    for key in keys:
        batch = next(iter(reader.list(f"{key}?")), None)
        found += [] if batch is None else batch["key"].to_pylist()
    return found


def ambiguous(run: Run, dead: list[Canary], hash_parts: list[PartInfo]) -> list[Canary]:
    """Of canaries that would be deleted, those of which the server may mean another key that stays.

    Args:
        run: this run.
        dead: canaries that would be deleted.
        hash_parts: files with the hashes of what would be deleted.
    """
    found = []
    for canary in dead:
        others = [Canary(key, canary.branch, canary.path) for key in meant(run, canary)]
        if len(among(run, others, hash_parts)) < len(others):
            found.append(canary)
    return found


def among(run: Run, canaries: list[Canary], hash_parts: list[PartInfo]) -> list[Canary]:
    """Find the canaries that would be deleted.

    Args:
        run: this run.
        canaries: living objects.
        hash_parts: files with the hashes of what would be deleted.
    """
    if not canaries:
        return []
    hashes = hash64(pa.array([canary.address for canary in canaries], pa.string()))
    hit = np.zeros(len(canaries), bool)
    for part in hash_parts:
        hit |= contains(read_hashes(run.folder, part), hashes)
    return [canary for canary, found in zip(canaries, hit, strict=True) if found]
