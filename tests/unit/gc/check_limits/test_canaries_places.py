"""Where canaries are looked for: in some branches, the default one among them, as many looks as there may be."""

from __future__ import annotations

from dredge.gc.check_limits import canaries
from dredge.lakefs import ObjectStats


def test_an_address_is_a_canary_once_by_each_key_that_a_store_can_list() -> None:
    """A reading with bytes that are not UTF-8 names no object."""
    stats = [ObjectStats("a", f"mem://lake/{name}", "c", 1) for name in ("data/b", "data/caf%E9", "data/b")]
    found = [*canaries._canaries([("main", item) for item in stats], "mem://lake")]
    assert [canary.address for canary in found] == ["data/b", "data/caf%E9", "data/caf%25E9"]
