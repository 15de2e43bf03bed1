"""Lists of range and metarange files: in one listing, and where there are many by their first digits."""

import hashlib
from pathlib import Path

import pytest

from dredge.lakefs.files.ranges import list_tables
from dredge.storage import open_writer


@pytest.mark.parametrize("at_least", [0, 999, 1000, 100_000])
def test_each_file_is_listed_once_whatever_its_first_digit(tmp_path: Path, at_least: int) -> None:
    store = open_writer(f"local://{tmp_path}")
    names = {hashlib.sha256(b"%d" % number).hexdigest() for number in range(200)}
    assert {name[0] for name in names} == {*"0123456789abcdef"}
    others = ["actions/log/run", "dummy", "retention/gc/" + "a" * 64, "A" * 64, "a" * 63]
    for name in [*names, *others]:
        store.put(f"_lakefs/{name}", name.encode())
    found = list_tables(store, at_least)
    assert found.keys() == names
    assert all(info.key == f"_lakefs/{name}" and info.size == 64 for name, info in found.items())
