"""Lists of range and metarange files: in one listing, or side by side by first digits."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from dredge.lakefs.files.ranges import list_tables
from dredge.storage import Level, ObjectWriter, open_writer


class Store:
    """A store that counts listings, and may be a remote one."""

    def __init__(self, store: ObjectWriter, is_remote: bool) -> None:
        self.store, self.is_remote, self.listings = store, is_remote, 0

    def list_level(self, prefix: str) -> Level:
        self.listings += 1
        return self.store.list_level(prefix)


@pytest.mark.parametrize(
    ("at_least", "is_remote", "listings"),
    [(0, True, 1), (999, True, 1), (1000, True, 16), (100_000, True, 16), (1000, False, 1)],
)
def test_each_file_is_listed_once_whatever_its_first_digit(
    tmp_path: Path, at_least: int, is_remote: bool, listings: int
) -> None:
    store: Any = Store(open_writer(f"local://{tmp_path}"), is_remote)
    names = {hashlib.sha256(b"%d" % number).hexdigest() for number in range(200)}
    assert {name[0] for name in names} == {*"0123456789abcdef"}
    others = ["actions/log/run", "dummy", "retention/gc/" + "a" * 64, "A" * 64, "a" * 63]
    for name in [*names, *others]:
        store.store.put(f"_lakefs/{name}", name.encode())
    found = list_tables(store, at_least)
    assert found.keys() == names
    assert all(info.key == f"_lakefs/{name}" and info.size == 64 for name, info in found.items())
    assert store.listings == listings
