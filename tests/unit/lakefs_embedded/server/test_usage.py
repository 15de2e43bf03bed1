"""Requests that an installation has served, counted by all of its servers in its key-value store."""

from lakefs_embedded.kv import MemoryKV
from lakefs_embedded.server.usage import Usage
from tests.support.lakes import ManualClock


def served(usage: Usage, times: int) -> None:
    for _ in range(times):
        usage.count()


def test_servers_of_an_installation_add_their_requests_to_one_count_by_month() -> None:
    kv, clock = MemoryKV(), ManualClock()
    one, two = Usage(kv, clock), Usage(kv, clock)
    served(one, 3)
    served(two, 4)
    assert one.months() == [(2026, 1, 3)]
    assert two.months() == [(2026, 1, 7)]
    assert one.months() == [(2026, 1, 7)], "what was written down is not counted again"
    clock.advance(days=31)
    served(one, 1)
    assert one.months() == [(2026, 1, 7), (2026, 2, 1)]
