"""Canaries: live objects shown by branches. None of them may be a candidate.

The server's object listing reads staging and commits together, independently of the marks. So canaries detect errors
beyond completeness proofs: wrong addresses, a wrong live set, rows lost by the server. Places come from the keys of
a head's ranges and from lists of changes; addresses come from the server's answers only.

The sample covers the whole key space, with other places in each run:

    committed   two fifths: random places in the head of each chosen branch, a range weighted by its records and a
                record of it; some objects are listed from there
    staged      two fifths: some objects listed from random changes among the first ones of each chosen branch, and
                from changes after the other places
    first       a fifth: the first objects of each chosen branch
"""

import random
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import takewhile

import numpy as np
import pyarrow as pa
from msgspec import Struct

from dredge.errors import FormatError, NotFoundError
from dredge.gc.index.ranges import get_file, get_files
from dredge.gc.namespaces import METADATA
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.lakefs import QUESTIONS, Change, ObjectStats, Ref
from dredge.lakefs.files.addresses import answer_readings
from dredge.lakefs.files.ranges import RangeInfo, read_metarange
from dredge.lakefs.files.sstable import RANGES, SeekableTable
from dredge.runs.payload import PartInfo
from dredge.sets.hashes import contains, read_hashes
from dredge.storage import ObjectReader, exists
from dredge.storage.keys import is_text
from dredge.storage.parallel import at_once, ordered_map

# Objects listed from each place.
_FROM_A_PLACE = 4


class Sizes(Struct, frozen=True, kw_only=True):
    """Limits of a sample."""

    part: int = 1  # one in so many of the configured branches
    page: int = 1000  # objects or changes of one request
    # total size of ranges read for their keys; of other ranges only the first and the last key are known, and
    # places between them are guessed
    decoded_bytes: int = 4 << 20
    decoded_files: int = 16  # number of ranges read: each takes a request


_SIZES = Sizes()


class Canary(Struct, frozen=True):
    """A live object: its key, the branch and path with it, and other possible keys of the server's answer."""

    address: str
    branch: str
    path: str
    others: tuple[str, ...] = ()


class _Place(Struct, frozen=True):
    """A place after a path of a branch, and the number of objects to list from there."""

    branch: str
    after: str
    amount: int


def sample(
    run: Run, seed: str, sizes: Sizes = _SIZES, metaranges: Mapping[str, str] | None = None
) -> list[Canary]:
    """Sample live objects of some branches; the seed and the run's id make the choice repeatable. `metaranges`: of
    known commits; the server is asked for those of others."""
    plan = run.plan
    safety = plan.config.safety
    chance = random.Random(f"{plan.run_id}-{seed}")
    wanted = max(1, safety.canary_branches // sizes.part)
    branches = _choose(run, run.client.branches(plan.repository), wanted, chance)
    # Few branches share the samples of the missing ones.
    each = min(safety.canary_objects * wanted // max(1, len(branches)), 20 * safety.canary_objects)
    first, others = max(1, each // 5), max(1, 2 * each // 5 // _FROM_A_PLACE)
    places = [_Place(branch.id, "", min(first, sizes.page)) for branch in branches]
    places += _places(run, branches, others, chance, sizes, metaranges or {})
    places = list(dict.fromkeys(places))  # a small branch has fewer places than samples
    with at_once() as ask:
        listed = ask(_spread, partial(_list, run), places)
        changed = _changed(run, branches, places, others, chance, sizes.page)
        answers = _spread(partial(_list, run), changed)
    shown = zip([*places, *changed], [*listed.result(), *answers], strict=True)
    found = [(place.branch, stats) for place, answer in shown for stats in answer]
    return list(_canaries(found, plan.namespace))


def _choose(run: Run, branches: Sequence[Ref], wanted: int, chance: random.Random) -> list[Ref]:
    main = [branch for branch in branches if branch.id == run.plan.default_branch]
    others = [branch for branch in branches if branch.id != run.plan.default_branch]
    return [*main, *chance.sample(others, min(len(others), max(0, wanted - len(main))))]


def _places(
    run: Run,
    branches: Sequence[Ref],
    each: int,
    chance: random.Random,
    sizes: Sizes,
    known: Mapping[str, str],
) -> list[_Place]:
    commits = sorted({branch.commit_id for branch in branches} - known.keys())
    answers = _spread(partial(_metarange_of, run), commits)
    metaranges = {**known, **dict(zip(commits, answers, strict=True))}
    distinct = sorted({found for branch in branches if (found := metaranges[branch.commit_id])})
    ranges_of = dict(
        zip(distinct, _spread(lambda found: _ranges_of(run.reader, found), distinct), strict=True)
    )
    heads = [(branch, ranges_of.get(metaranges[branch.commit_id], ())) for branch in branches]
    chosen = [
        (branch, item)
        for branch, ranges in heads
        if ranges
        for item in chance.choices(ranges, [max(1, item.count) for item in ranges], k=each)
    ]
    tables = _tables(run.reader, [item for _, item in chosen], chance, sizes)
    return [
        _Place(branch.id, _before_some_record(item, tables, chance).decode("utf-8", "ignore"), _FROM_A_PLACE)
        for branch, item in chosen
    ]


def _before_some_record(item: RangeInfo, tables: Mapping[str, SeekableTable], chance: random.Random) -> bytes:
    """A key right before a random record of a range."""
    if item.id in tables:
        try:
            after = tables[item.id].place(chance.random())
            return item.min_key[:-1] if after is None else after
        except FormatError:
            pass  # the place is guessed; other steps report damaged files
    return between(item.min_key, item.max_key, chance)


def _metarange_of(run: Run, commit_id: str) -> str:
    """The metarange of a commit; "" for an initial or missing commit (other steps report it)."""
    try:
        return run.client.commit(run.plan.repository, commit_id).metarange_id
    except NotFoundError:
        return ""


def _ranges_of(reader: ObjectReader, metarange_id: str) -> list[RangeInfo]:
    """The ranges of a metarange; empty if damaged (other steps report it)."""
    key = METADATA + metarange_id
    try:
        return read_metarange(get_file(reader, metarange_id), key)
    except (NotFoundError, FormatError):
        return []


def _tables(
    reader: ObjectReader, ranges: Iterable[RangeInfo], chance: random.Random, sizes: Sizes
) -> dict[str, SeekableTable]:
    distinct = list({item.id: item for item in ranges}.values())
    chance.shuffle(distinct)
    left, small = sizes.decoded_bytes, list[str]()
    for item in distinct:
        if item.estimated_size <= left and len(small) < sizes.decoded_files:
            left -= item.estimated_size
            small.append(item.id)
    found = {}
    try:
        for key, data in get_files(reader, small):
            table = SeekableTable(data, key, RANGES)
            if table.count:
                found[key.removeprefix(METADATA)] = table
    except (NotFoundError, FormatError):
        pass  # the places are guessed; other steps report damaged files
    return found


def _changed(
    run: Run, branches: Sequence[Ref], places: Sequence[_Place], each: int, chance: random.Random, page: int
) -> list[_Place]:
    """Places before random changes."""
    repository = run.plan.repository

    def changes(branch: str, amount: int, after: str) -> list[Change]:
        try:
            return run.client.changes(repository, branch, amount, after)
        except NotFoundError:
            return []  # the branch was deleted meanwhile

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
    behind_places = _spread(lambda place: changes(place.branch, place.amount, place.after), more)
    for place, answer in zip(more, behind_places, strict=True):
        paths = [change.path for change in answer if change.type != "removed"]
        found.extend((place.branch, path) for path in paths[:1])
    return [_Place(branch, just_before(path), _FROM_A_PLACE) for branch, path in dict.fromkeys(found)]


def just_before(path: str) -> str:
    """A string before a path in sort order, with no realistic path between them."""
    head, last = path[:-1], ord(path[-1])
    if last == 0:
        return head
    before = last - 1
    if 0xD800 <= before <= 0xDFFF:
        before = 0xD7FF
    return f"{head}{chr(before)}\U0010ffff"


def _list(run: Run, place: _Place) -> list[ObjectStats]:
    try:
        return run.client.objects(run.plan.repository, place.branch, place.after, place.amount)
    except NotFoundError:
        return []  # the branch was deleted meanwhile


def _canaries(found: Iterable[tuple[str, ObjectStats]], namespace: str) -> Iterable[Canary]:
    canaries: dict[str, Canary] = {}
    for branch, stats in found:
        keys = [key for key in answer_readings(stats.address, namespace) if is_text(key)]
        for address in keys:  # a store lists no other keys
            others = tuple(key for key in keys if key != address)
            canaries.setdefault(address, Canary(address, branch, stats.path, others))
    return canaries.values()


def _spread[T, R](ask: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return list(ordered_map(ask, items, QUESTIONS))


def meant(run: Run, canary: Canary) -> list[str]:
    """Other possible keys of the server's answer in the store."""
    keys = keys_in_store(run.reader, (canary.address, *canary.others))
    return [key for key in keys if key != canary.address]


def keys_in_store(reader: ObjectReader, keys: Sequence[str]) -> list[str]:
    """The given keys in the store, and keys with a query after them: a server omits it."""
    found = [key for key in keys if exists(reader, key)]
    for key in keys:
        batch = next(iter(reader.list(f"{key}?")), None)
        found += [] if batch is None else batch["key"].to_pylist()
    return found


def ambiguous(run: Run, dead: list[Canary], hash_parts: list[PartInfo]) -> list[Canary]:
    """The canaries among `dead` with another possible key outside the candidates to be deleted."""
    found = []
    for canary in dead:
        others = [Canary(key, canary.branch, canary.path) for key in meant(run, canary)]
        if len(among(run, others, hash_parts)) < len(others):
            found.append(canary)
    return found


def among(run: Run, canaries: list[Canary], hash_parts: list[PartInfo]) -> list[Canary]:
    """The canaries with a hash in `hash_parts`, the candidates to be deleted."""
    if not canaries:
        return []
    hashes = hash64(pa.array([canary.address for canary in canaries], pa.string()))
    hit = np.zeros(len(canaries), bool)
    for part in hash_parts:
        hit |= contains(read_hashes(run.folder, part), hashes)
    return [canary for canary, found in zip(canaries, hit, strict=True) if found]


_DIGITS, _LOWER, _UPPER, _HEX = (
    text.encode()
    for text in (string.digits, string.ascii_lowercase, string.ascii_uppercase, "0123456789abcdef")
)


def between(first: bytes, last: bytes, chance: random.Random) -> bytes:
    """Guess a key between two, for a range without known records; it need not be text.

    Names of objects are numbers, dates and ids between words, so most random bytes between the ends would sort after
    every number. A guess keeps the common beginning and end of the two keys, and takes the rest from the kinds of
    characters at each position.
    """
    low, high = sorted((first, last))
    begin = _in_common(low, high)
    end = _in_common(low[len(begin) :][::-1], high[len(begin) :][::-1])[::-1]
    lowest, highest = (key[len(begin) : len(key) - len(end)] for key in (low, high))
    guess = begin + _middle(lowest, highest, chance) + end
    return min(max(guess, low), high)


def _in_common(one: bytes, other: bytes) -> bytes:
    return bytes(
        letter for letter, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )


def _middle(low: bytes, high: bytes, chance: random.Random) -> bytes:
    """Random characters of the kinds at each position, between `low` and `high`."""
    is_hex = _is_hex(low + high)
    found = bytearray()
    over = under = False  # the guess so far is above `low`, below `high`
    for place in range(max(len(low), len(high))):
        least = low[place] if not over and place < len(low) else 0
        most = 255 if under else high[place] if place < len(high) else 0
        letters = _kind(low[place : place + 1] + high[place : place + 1], is_hex)
        fitting = [letter for letter in letters if least <= letter <= most]
        if not fitting:
            break
        found.append(chance.choice(fitting))
        over, under = over or found[-1] > least, under or found[-1] < most
    return bytes(found)


def _kind(seen: bytes, is_hex: bool) -> list[int]:
    found = set(seen)
    for kind in (_HEX,) if is_hex else (_DIGITS, _LOWER, _UPPER):
        if found & set(kind):
            found |= set(kind)
    return sorted(found)


def _is_hex(seen: bytes) -> bool:
    letters, digits = set(seen) & set(_LOWER), set(seen) & set(_DIGITS)
    return bool(letters and digits) and letters <= set(_HEX)
