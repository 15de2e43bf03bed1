"""Symlink files: one per folder, with the addresses of its objects."""

from __future__ import annotations

from pathlib import Path

from dredge.graveler.catalog import ObjectStats
from dredge.testing import run_lakefs
from tests.support.lakes import make_lake


def test_every_folder_gets_a_file_with_the_addresses_of_its_objects() -> None:
    lake = make_lake()
    made: dict[str, ObjectStats] = {
        path: lake.upload(path) for path in ("t/d=1/a", "t/d=1/b", "t/d=2/c", "u/x", "top")
    }
    folder = lake.catalog.symlinks.create_symlinks(lake.repository, "main", "t/")
    assert folder == f"{lake.namespace}/symlinks"
    root = f"symlinks/{lake.repository}/main"
    assert lake.keys("symlinks/") == [
        f"{root}/t/d=1/symlink.txt",
        f"{root}/t/d=2/symlink.txt",
    ]
    written = lake.objects.get(f"{root}/t/d=1/symlink.txt").decode().split("\n")
    assert written == [made[path].physical_address for path in ("t/d=1/a", "t/d=1/b")]
    assert lake.paths() == sorted(made)  # nothing was added to the branch


def test_the_root_has_a_file_too_also_where_objects_are_files(tmp_path: Path) -> None:
    lake = make_lake()
    lake.upload("top")
    lake.catalog.symlinks.create_symlinks(lake.repository, "main")
    assert lake.keys("symlinks/") == ["symlinks/lake/main//symlink.txt"]
    with run_lakefs(tmp_path) as running:
        running.create_repository("lake")
        running.server.catalog.objects.upload_object("lake", "main", "top", b"1")
        running.server.catalog.symlinks.create_symlinks("lake", "main")
    assert (tmp_path / "lake" / "symlinks" / "lake" / "main" / "symlink.txt").exists()


def test_nothing_to_link_is_no_error() -> None:
    lake = make_lake()
    lake.catalog.symlinks.create_symlinks(lake.repository, "main", "none/")
    assert lake.keys("symlinks/") == []
