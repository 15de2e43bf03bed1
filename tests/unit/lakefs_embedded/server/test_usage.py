"""Requests that an installation has served, counted by all of its servers in its key-value store."""

from __future__ import annotations

from dredge.kv.model import MemoryKV
from lakefs_embedded.server.usage import Usage
from tests.support.lakes import ManualClock


def served(usage: Usage, times: int) -> None:
    for _ in range(times):
        usage.count("list_branches", "GET", 200, 0.0)


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


def test_a_count_that_another_server_changes_meanwhile_is_added_to_its_new_value() -> None:
    kv, clock = MemoryKV(), ManualClock()
    one, two = Usage(kv, clock), Usage(kv, clock)
    served(one, 3)
    served(two, 4)
    set_if, between = kv.set_if, []

    def setting(partition: bytes, key: bytes, value: bytes, expected: bytes | None) -> None:
        if not between:
            between.append(key)
            two.months()
        set_if(partition, key, value, expected)

    kv.set_if = setting  # type: ignore[method-assign]
    assert one.months() == [(2026, 1, 7)]
