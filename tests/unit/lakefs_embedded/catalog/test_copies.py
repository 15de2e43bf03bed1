"""Copies that share their bytes: which do, and that a collection under way does not lose them."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dredge.xid import new_descending_xid
from lakefs_embedded.catalog import Catalog, Settings
from lakefs_embedded.catalog.tracked import Copies
from lakefs_embedded.catalog.uncommitted import Mark
from lakefs_embedded.errors import ContinuationTokenError
from lakefs_embedded.kv import Store
from tests.support.lakes import Lake, make_lake
from tests.support.turns import Explored, Scene, explore

DESIGN = Settings(background=False, profile="design")
ROW_BY_ROW = Settings(
    background=False, profile="design", prepare_flush_rows=1, prepare_file_bytes_max=4, write_tries=10
)


@pytest.fixture
def lake() -> Lake:
    return make_lake(settings=DESIGN)


def copy(lake: Lake, to: str, source: str, **more: object) -> str:
    made = lake.catalog.objects.copy_object(lake.repository, "main", to, source, **more)  # type: ignore[arg-type]
    return lake.address(made)


def tracked(lake: Lake) -> list[str]:
    found = lake.catalog.repositories.get_repository(lake.repository)
    return [copied.entry.address for copied in Copies(lake.kv).scan(found)]


def prepared(lake: Lake, catalog: Catalog | None = None) -> tuple[set[str], int]:
    """Addresses of one run, read to its end, and how many pages it had."""
    catalog = catalog or lake.catalog
    page, pages = catalog.garbage.prepare_uncommitted(lake.repository), 1
    while page.continuation_token is not None:
        page, pages = catalog.garbage.prepare_uncommitted(lake.repository, page.continuation_token), pages + 1
    folder = f"_lakefs/retention/gc/uncommitted/{page.run_id}/uncommitted/"
    found: set[str] = set()
    for key in lake.keys(folder):
        table = pq.read_table(pa.BufferReader(lake.objects.get(key)))
        found.update(table.column("physical_address").to_pylist())
    return found, pages


# --- which copies share ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ref", [None, "main", "main$"])
def test_the_branch_may_be_named(lake: Lake, ref: str | None) -> None:
    address = lake.address(lake.upload("a"))
    assert copy(lake, "b", "a", source_ref=ref) == address


def test_every_other_copy_has_bytes_of_its_own(lake: Lake) -> None:
    committed = lake.address(lake.upload("committed"))
    commit = lake.commit()
    lake.upload("staged", b"staged")
    lake.catalog.branches.create_branch(lake.repository, "side", "main")
    on_side = lake.address(lake.upload("side", b"side", branch="side"))
    known = {committed, on_side}
    for to, source, ref in (
        ("1", "committed", None),
        ("2", "committed", commit.id),
        ("3", "committed", "main@"),
        ("4", "side", "side"),
    ):
        made = copy(lake, to, source, source_ref=ref)
        assert made not in known
        assert lake.objects.get(made)
        known.add(made)
    assert tracked(lake) == []


def test_trap_45_a_copy_of_what_no_prepare_shows_has_bytes_of_its_own(lake: Lake) -> None:
    lake.upload("a", b"same")
    lake.commit()
    hidden = lake.address(lake.upload("a", b"same"))
    assert prepared(lake)[0] == set()
    assert copy(lake, "b", "a") != hidden
    assert tracked(lake) == []


# --- prepare -----------------------------------------------------------------------------------------------


def test_a_run_longer_than_copies_are_kept_is_refused(lake: Lake) -> None:
    token = Mark(new_descending_xid(lake.clock.now), "main").encode()
    lake.clock.advance(hours=24)
    lake.catalog.garbage.prepare_uncommitted(lake.repository, token)
    lake.clock.advance(seconds=1)
    with pytest.raises(ContinuationTokenError):
        lake.catalog.garbage.prepare_uncommitted(lake.repository, token)
    with pytest.raises(ContinuationTokenError):
        lake.catalog.garbage.prepare_uncommitted(lake.repository, Mark("no-xid", "main").encode())


# --- the race ----------------------------------------------------------------------------------------------


def rename(lake: Lake, catalog: Catalog) -> None:
    """From a path that the scan reads late to one that it reads early."""
    catalog.objects.copy_object(lake.repository, "main", "a", "z")
    catalog.objects.delete_object(lake.repository, "main", "z")


def renames_during_a_scan() -> Explored:
    """Every order of a prepare run, a page a row, and a rename; the renamed object must be in it."""

    def scene() -> Scene:
        lake = make_lake(settings=ROW_BY_ROW)
        lake.upload("m", b"m")
        address = lake.address(lake.upload("z", b"z"))

        def scan(kv: Store) -> object:
            return prepared(lake, lake.another_server(kv))[0]

        def check(results: Mapping[str, object]) -> None:
            assert lake.read("a") == b"z"
            found = results["scan"]
            assert isinstance(found, set)
            assert address in found, "the collector would delete an object that is live"

        return Scene(
            lake.kv, {"rename": lambda kv: rename(lake, lake.another_server(kv)), "scan": scan}, check
        )

    return explore(scene)


def test_a_rename_during_a_scan_is_kept_in_every_order() -> None:
    explored = renames_during_a_scan()
    assert explored.schedules >= 10
    assert set(explored.outcomes) == {("ok", "ok")}


def copies_beside_a_reset() -> Explored:
    """Every order of a copy, and of a reset with a collection after it: what the copy shares must be in it."""

    def scene() -> Scene:
        lake = make_lake(settings=DESIGN)
        address = lake.address(lake.upload("z", b"z"))

        def reset_and_scan(kv: Store) -> object:
            catalog = lake.another_server(kv)
            catalog.branches.reset_branch(lake.repository, "main", kind="reset")
            return prepared(lake, catalog)[0]

        def copy_it(kv: Store) -> object:
            return lake.another_server(kv).objects.copy_object(lake.repository, "main", "a", "z")

        def check(results: Mapping[str, object]) -> None:
            found = results["reset"]
            assert isinstance(found, set)
            shared = [stats for stats in lake.listing() if lake.address(stats) == address]
            assert not shared or address in found, "the collector would delete what was shared"

        return Scene(lake.kv, {"copy": copy_it, "reset": reset_and_scan}, check)

    return explore(scene)


def test_a_copy_shares_nothing_that_a_collection_has_missed() -> None:
    explored = copies_beside_a_reset()
    assert set(explored.outcomes) == {("ok", "ok"), ("PathNotFoundError", "ok")}
