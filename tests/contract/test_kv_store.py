"""What every key-value driver promises. Drivers are named in tests/support/kv_drivers.py."""

import itertools
import multiprocessing
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dredge.errors import ConflictError, NotFoundError
from lakefs_embedded.kv import Entry, KeyNotFoundError, PredicateFailedError, Store, open_store
from tests.support.kv_drivers import DRIVERS, Driver
from tests.support.kv_races import count_up, create_all

P = b"partition"
names = st.binary(min_size=1, max_size=6)


SHARED = pytest.mark.parametrize("driver", sorted(n for n in DRIVERS if DRIVERS[n].shared), indirect=True)
ACROSS_PAGES = [(name, count) for name in sorted(DRIVERS) for count in DRIVERS[name].counts]


@pytest.fixture(params=sorted(DRIVERS))
def driver(request: pytest.FixtureRequest) -> Driver:
    return DRIVERS[request.param]


@pytest.fixture
def url(driver: Driver, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    with driver.fresh_url(tmp_path, request) as fresh:
        yield fresh


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


def keys(store: Store, partition: bytes = P, start: bytes = b"") -> list[bytes]:
    return [entry.key for entry in store.scan(partition, start)]


def test_an_absent_key_is_its_own_error(store: Store) -> None:
    store.set(P, b"k", b"v")
    for partition, key in ((P, b"x"), (b"other", b"k"), (P, b"k\0"), (P, b"K")):
        with pytest.raises(KeyNotFoundError) as caught:
            store.get(partition, key)
        assert isinstance(caught.value, NotFoundError)


def test_delete_removes_one_key_and_forgives_absent_ones(store: Store) -> None:
    for key in (b"a", b"b", b"b\0", b"bb"):
        store.set(P, key, b"v")
    store.set(b"other", b"b", b"v")
    store.delete(P, b"b")
    store.delete(P, b"b")
    store.delete(b"no such partition", b"b")
    assert keys(store) == [b"a", b"b\0", b"bb"]
    assert store.get(b"other", b"b") == b"v"


def test_scan_goes_in_byte_order_through_all_byte_values(store: Store) -> None:
    wanted = [bytes([n]) for n in range(256)] + [
        bytes([n, m]) for n in (0, 1, 127, 128, 255) for m in (0, 255)
    ]
    for key in random.Random(7).sample(wanted, len(wanted)):
        store.set(P, key, key)
    assert keys(store) == sorted(wanted)
    assert all(entry.key == entry.value for entry in store.scan(P))


@pytest.mark.parametrize(("driver", "count"), ACROSS_PAGES, indirect=["driver"])
def test_scan_crosses_pages_without_loss_or_repetition(store: Store, count: int) -> None:
    wanted = [b"%06d" % n for n in range(count)]
    for key in wanted:
        store.set(P, key, key)
    assert keys(store) == wanted
    assert keys(store, start=wanted[count // 2]) == wanted[count // 2 :]


def test_scan_shows_every_key_that_was_there_throughout_while_others_come_and_go(
    store: Store, driver: Driver
) -> None:
    stable = [b"k%05d" % n for n in range(0, min(4000, 2 * driver.most_keys), 2)]
    for key in stable:
        store.set(P, key, b"stable")
    stop = threading.Event()

    def disturb() -> None:
        chance = random.Random(1)
        while not stop.is_set():
            key = b"k%05d" % (chance.randrange(len(stable)) * 2 + 1)
            store.set(P, key, b"passing")
            store.set(P, chance.choice(stable), b"stable")
            store.delete(P, key)

    threads = [threading.Thread(target=disturb) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            found = keys(store)
            assert found == sorted(set(found))
            assert set(stable) <= set(found)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_scanner_itself_may_write_and_delete_as_it_goes(store: Store, driver: Driver) -> None:
    many = min(1500, driver.most_keys)
    for n in range(many):
        store.set(P, b"%05d" % n, b"old")
    seen = []
    for entry in store.scan(P):
        seen.append(entry.key)
        store.delete(P, entry.key)
        store.set(b"elsewhere", entry.key, entry.value)
    assert seen == [b"%05d" % n for n in range(many)]
    assert keys(store) == []
    assert len(keys(store, b"elsewhere")) == many


def test_a_scan_left_half_way_hinders_nobody(store: Store, driver: Driver) -> None:
    for n in range(min(3000, driver.most_keys)):
        store.set(P, b"%05d" % n, b"v")
    scan = store.scan(P)
    next(scan)
    store.set(P, b"00000", b"new")
    store.set_if(P, b"zz", b"v", None)
    del scan
    assert store.get(P, b"00000") == b"new"


def test_set_if_absent_writes_once(store: Store) -> None:
    store.set_if(P, b"k", b"one", None)
    with pytest.raises(PredicateFailedError) as caught:
        store.set_if(P, b"k", b"two", None)
    assert isinstance(caught.value, ConflictError)
    assert store.get(P, b"k") == b"one"
    store.delete(P, b"k")
    store.set_if(P, b"k", b"three", None)
    assert store.get(P, b"k") == b"three"


def test_set_if_compares_the_whole_old_value(store: Store) -> None:
    store.set(P, b"k", b"old")
    for wrong in (b"", b"ol", b"old ", b"OLD", b"old\0", b"\0old"):
        with pytest.raises(PredicateFailedError):
            store.set_if(P, b"k", b"new", wrong)
    with pytest.raises(PredicateFailedError):
        store.set_if(P, b"absent", b"new", b"old")
    with pytest.raises(PredicateFailedError):
        store.set_if(P, b"absent", b"new", b"")
    assert store.get(P, b"k") == b"old"
    with pytest.raises(KeyNotFoundError):
        store.get(P, b"absent")
    store.set_if(P, b"k", b"old", b"old")
    store.set_if(P, b"k", b"new", b"old")
    assert store.get(P, b"k") == b"new"


def test_delete_if_removes_only_the_expected_value(store: Store) -> None:
    store.set(P, b"k", b"old")
    store.set(P, b"other", b"old")
    for wrong in (b"", b"ol", b"old ", b"OLD", b"old\0", b"\0old"):
        with pytest.raises(PredicateFailedError):
            store.delete_if(P, b"k", wrong)
    assert store.get(P, b"k") == b"old"
    store.delete_if(P, b"k", b"old")
    assert keys(store, P) == [b"other"]
    for expected in (b"old", b""):
        with pytest.raises(PredicateFailedError):
            store.delete_if(P, b"k", expected)
    store.set(P, b"k", b"")
    store.delete_if(P, b"k", b"")
    assert keys(store, P) == [b"other"]


def test_of_many_threads_exactly_one_deletes_each_value(store: Store, driver: Driver) -> None:
    for number in range(20):
        store.set(P, b"%03d" % number, b"value")

    def attempt(_: int) -> list[int]:
        won = []
        for number in range(20):
            try:
                store.delete_if(P, b"%03d" % number, b"value")
                won.append(number)
            except PredicateFailedError:
                pass
        return won

    with ThreadPoolExecutor(driver.racers) as threads:
        won = list(threads.map(attempt, range(driver.racers)))
    assert sorted(number for numbers in won for number in numbers) == list(range(20))
    assert keys(store, P) == []


def test_the_empty_value_is_not_absence(store: Store) -> None:
    store.set_if(P, b"k", b"", None)
    assert store.get(P, b"k") == b""
    assert list(store.scan(P)) == [Entry(b"k", b"")]
    with pytest.raises(PredicateFailedError):
        store.set_if(P, b"k", b"x", None)
    store.set_if(P, b"k", b"x", b"")
    store.set_if(P, b"k", b"", b"x")
    assert store.get(P, b"k") == b""


def test_large_values_come_back_whole_and_are_compared_whole(store: Store, driver: Driver) -> None:
    large = random.Random(3).randbytes(driver.longest_value)
    other = large[:-1] + bytes([large[-1] ^ 1])
    store.set(P, b"k", large)
    assert store.get(P, b"k") == large
    with pytest.raises(PredicateFailedError):
        store.set_if(P, b"k", b"small", other)
    store.set_if(P, b"k", other, large)
    assert [entry.value for entry in store.scan(P)] == [other]


def test_partitions_do_not_run_into_each_other(store: Store) -> None:
    pairs = [
        (b"a", b"b/c"),
        (b"a/b", b"c"),
        (b"a/", b"b/c"),
        (b"a/b/", b"c"),
        (b"a", b"/b/c"),
        (b"a\0", b"b/c"),
    ]
    pairs += [(b"a", b"\0b/c"), (b"A", b"b/c"), (b"a%2Fb", b"c"), (b"ab", b"/c")]
    for number, (partition, key) in enumerate(pairs):
        store.set_if(partition, key, b"%d" % number, None)
    for number, (partition, key) in enumerate(pairs):
        assert store.get(partition, key) == b"%d" % number
        assert keys(store, partition) == sorted(k for p, k in pairs if p == partition)
    store.delete(b"a", b"b/c")
    assert store.get(b"a/b", b"c") == b"1"
    assert keys(store, b"a") == [b"\0b/c", b"/b/c"]


def test_partition_and_key_names_are_bytes_not_text(store: Store) -> None:
    odd = [
        b"\xff\xfe",
        b"\x00",
        b"'; DROP TABLE kv; --",
        b"%",
        b"_",
        "é😀".encode(),
        b"caf\xc3\xa9",
        b"cafe\xcc\x81",
    ]
    for partition in odd:
        for key in odd:
            store.set(partition, key, partition + b"|" + key)
    for partition in odd:
        assert keys(store, partition) == sorted(odd)
        assert all(store.get(partition, key) == partition + b"|" + key for key in odd)


@SHARED
def test_of_many_processes_exactly_one_wins(url: str, store: Store, driver: Driver) -> None:
    racers = max(2, driver.racers // 2)
    writes = driver.race_writes
    start_at = time.time() + 2
    with ProcessPoolExecutor(racers, mp_context=multiprocessing.get_context("spawn")) as processes:
        races = [processes.submit(create_all, url, start_at, b"%d" % n, writes) for n in range(racers)]
        won = [race.result() for race in races]
        counts = [processes.submit(count_up, url, 0.0, writes) for _ in range(racers)]
        assert all(count.result() >= 0 for count in counts)
    assert sorted(number for numbers in won for number in numbers) == list(range(writes))
    for name, numbers in enumerate(won):
        assert all(store.get(b"race", b"%03d" % number) == b"%d" % name for number in numbers)
    assert store.get(b"race", b"counter") == b"%d" % (racers * writes)


@SHARED
def test_what_one_wrote_the_next_one_reads(url: str, store: Store) -> None:
    store.set(P, b"k", b"v")
    with open_store(url) as second:
        assert second.get(P, b"k") == b"v"
        second.set(P, b"k", b"w")
    assert store.get(P, b"k") == b"w"


examples = itertools.count()
operations = st.lists(
    st.one_of(
        st.tuples(st.just("set"), names, names, st.binary(max_size=4)),
        st.tuples(st.just("delete"), names, names, st.just(b"")),
        st.tuples(st.just("create"), names, names, st.binary(max_size=4)),
        st.tuples(st.just("swap"), names, names, st.binary(max_size=4)),
        st.tuples(st.just("swap wrongly"), names, names, st.binary(max_size=4)),
    ),
    max_size=40,
)


@pytest.mark.hypothesis
def test_any_history_leaves_what_a_dict_would_hold(store: Store, driver: Driver) -> None:
    @settings(max_examples=driver.examples, deadline=None)
    @given(data=st.data())
    def holds(data: st.DataObject) -> None:
        check_history(store, data)

    holds()


def check_history(store: Store, data: st.DataObject) -> None:
    # Few partitions and keys, so that operations meet; a prefix of its own for each example.
    prefix = b"%d|" % next(examples)
    partitions, keyset = (
        data.draw(st.lists(names, min_size=1, max_size=3)),
        data.draw(st.lists(names, min_size=1)),
    )
    model: dict[tuple[bytes, bytes], bytes] = {}
    for kind, partition_seed, key_seed, value in data.draw(operations):
        partition = prefix + partitions[partition_seed[0] % len(partitions)]
        key = keyset[key_seed[0] % len(keyset)]
        old = model.get((partition, key))
        if kind == "set":
            store.set(partition, key, value)
            model[partition, key] = value
        elif kind == "delete":
            store.delete(partition, key)
            model.pop((partition, key), None)
        else:
            predicate = {"create": None, "swap": old}.get(kind, (old or b"") + b"!")
            if predicate == old:
                store.set_if(partition, key, value, predicate)
                model[partition, key] = value
            else:
                with pytest.raises(PredicateFailedError):
                    store.set_if(partition, key, value, predicate)
    for partition in sorted({prefix + name for name in partitions}):
        expected = sorted((k, v) for (p, k), v in model.items() if p == partition)
        assert [(e.key, e.value) for e in store.scan(partition)] == expected
        start = data.draw(names)
        assert keys(store, partition, start) == [k for k, _ in expected if k >= start]
