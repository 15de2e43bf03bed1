from __future__ import annotations

import threading
from datetime import timedelta

from dredge.graveler.catalog.slices import PathProvider
from dredge.graveler.xid import ascending_time, descending_time, is_xid
from tests.support.lakes import ManualClock

HOUR = timedelta(hours=1)


def split(address: str) -> tuple[str, str]:
    prefix, part, name = address.split("/")
    assert prefix == "data"
    assert is_xid(part)
    assert is_xid(name)
    return part, name


def test_a_name_tells_when_it_was_made_and_its_slice_when_it_began() -> None:
    clock = ManualClock()
    paths = PathProvider(clock, 10, HOUR)
    began = clock.now
    paths.new_address()
    clock.advance(minutes=59)
    part, name = split(paths.new_address())
    assert descending_time(part) == began
    assert ascending_time(name) == clock.now


def test_a_slice_ends_after_an_hour() -> None:
    clock = ManualClock()
    paths = PathProvider(clock, 10, HOUR)
    first, _ = split(paths.new_address())
    clock.advance(hours=1)
    second, _ = split(paths.new_address())
    assert second < first  # newer slices sort first


def test_a_slice_ends_after_so_many_names() -> None:
    paths = PathProvider(ManualClock(), 3, HOUR)
    parts = [split(paths.new_address())[0] for _ in range(7)]
    assert [parts.count(part) for part in dict.fromkeys(parts)] == [3, 3, 1]


def test_no_name_is_given_twice() -> None:
    paths = PathProvider(ManualClock(), 1000, HOUR)
    names: list[str] = []

    def take() -> None:
        for _ in range(500):
            names.append(paths.new_address())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 2000
