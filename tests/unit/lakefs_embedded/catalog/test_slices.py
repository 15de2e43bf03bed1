from __future__ import annotations

import threading
from datetime import timedelta

from dredge.xid import is_xid
from lakefs_embedded.catalog import Settings
from lakefs_embedded.catalog.slices import PathProvider
from tests.support.lakes import ManualClock, make_lake

HOUR = timedelta(hours=1)


def split(address: str) -> tuple[str, str]:
    prefix, part, name = address.split("/")
    assert prefix == "data"
    assert is_xid(part)
    assert is_xid(name)
    return part, name


def test_a_slice_ends_after_an_hour() -> None:
    clock = ManualClock()
    paths = PathProvider(clock, 10, HOUR)
    first, _ = split(paths.new_address())
    clock.advance(hours=1)
    second, _ = split(paths.new_address())
    assert second < first  # newer slices sort first


def test_many_servers_at_once_never_share_a_slice() -> None:
    """Each catalog writes its own slices, however many start in the same second on the same stores."""
    lake = make_lake(settings=Settings(background=False, slice_names_max=10))
    servers = [lake.another_server() for _ in range(8)]
    written: list[list[str]] = [[] for _ in servers]

    def write(number: int) -> None:
        for count in range(25):
            stats = servers[number].objects.upload_object(lake.repository, "main", f"{number}/{count}", b"x")
            written[number].append(lake.address(stats))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(len(servers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    slices = [list(dict.fromkeys(split(address)[0] for address in each)) for each in written]
    assert [len(each) for each in slices] == [3] * len(servers)
    assert len({name for each in slices for name in each}) == 3 * len(servers)
    assert len({address for each in written for address in each}) == 25 * len(servers)
    assert len(lake.keys()) == 25 * len(servers)
