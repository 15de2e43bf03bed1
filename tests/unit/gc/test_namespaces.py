"""What lies where in a namespace, and namespaces that overlap."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError, RefusedError
from dredge.gc.config import GCConfig
from dredge.gc.namespaces import (
    check_namespaces,
    key_of,
    left_folder,
    nested_folders,
    overlaps,
)
from dredge.gc.planning import _run_root
from dredge.gc.steps import bulk_delete
from dredge.lakefs import Repository
from dredge.storage import open_deleter
from tests.support.gc import World, deleting, make_world, summary_of
from tests.support.looks import driver_looks


def test_trap_14_15_nothing_outside_data_is_touched() -> None:
    world = make_world()
    world.upload("a", b"1")
    others = {
        "0123456789abcdef0123456789abcdef",
        "dummy",
        "symlinks/lake/main/symlink.txt",
        "datax/slice/object",
        "Data/slice/object",
        "user-folder/x",
    }
    for key in others:
        world.lake.objects.put(key, b"x")
    orphan = world.orphan("data/orphan")
    world.age(days=2)
    before = set(world.lake.keys("")) - world.data()
    context = world.collected()
    assert orphan not in world.data()
    assert before <= set(world.lake.keys(""))
    summary = context.folder.read_summary("slice_listing")
    assert summary is not None
    assert summary.counts["root_objects"] == 1
    assert any("old layout" in row["kind"] for row in context.folder.read_json("report.json")["rows"])


def nested_world(folder: str = "data/inner", **settings: Any) -> tuple[World, set[str], set[str]]:
    world = make_world(**settings)
    kept = {world.upload("a", b"1")}
    world.lake.commit()
    gone = {world.orphan("data/slice/orphan", b"orphan")}
    catalog = world.lake.catalog
    catalog.repositories.create_repository("inner", f"{world.lake.namespace}/{folder}")
    catalog.objects.upload_object("inner", "main", "x", b"committed")
    catalog.commits.commit("inner", "main", committer="tester", message="inner")
    catalog.objects.upload_object("inner", "main", "y", b"staged")
    kept |= world.data() - gone
    world.age(days=2)
    return world, kept, gone


@pytest.mark.parametrize("folder", ["data/inner", "data/a/b/c", "data/slice/inner"])
def test_trap_15_the_folder_of_a_nested_repository_is_kept_and_the_rest_is_collected(folder: str) -> None:
    """Vendor: collecting the outer repository destroys the inner one, metadata included."""
    world, kept, gone = nested_world(folder)
    with pytest.raises(RefusedError, match="inner"):
        world.collect(repository="inner")
    run = world.plan()
    summary = world.run(run)
    assert summary.status == "success"
    assert world.data() == kept
    report = run.folder.read_json("report.json")
    assert report["outcome"] == "success"
    assert summary_of(run, "subtract").details["nested"] == [f"{folder}/"]
    assert any(f"{folder}/" in warning for warning in report["warnings"])
    for path in ("x", "y"):
        world.lake.catalog.reading.get_object("inner", "main", path).read(0, None)
    assert gone


@pytest.mark.parametrize("is_committed", [True, False])
def test_trap_15_what_a_deleted_nested_repository_left_is_kept_and_the_rest_is_collected(
    is_committed: bool,
) -> None:
    world, kept, _ = nested_world()
    if not is_committed:
        metadata = [key for key in world.lake.keys("data/inner/_lakefs/") if not key.endswith("dummy")]
        open_deleter(world.lake.namespace).delete(metadata)
        kept.difference_update(metadata)
    world.lake.catalog.repositories.delete_repository("inner")
    assert world.collect().status == "success"
    assert world.data() == kept


def test_trap_15_a_nested_repository_of_another_server_is_kept_by_its_files() -> None:
    for marker in ("data/inner/_lakefs/dummy", "data/inner/dummy"):
        world = make_world()
        kept = {world.upload("a", b"1"), world.orphan("data/inner/data/slice/object"), world.orphan(marker)}
        world.orphan("data/slice/orphan")
        world.age(days=2)
        dry_run = world.collected(dry_run=True)
        assert summary_of(dry_run, "bulk_delete").counts["would_delete_objects"] == 1
        assert world.collect().status == "success"
        assert world.data() == kept


@pytest.mark.parametrize("where", ["data", "slice"])
def test_a_repository_that_was_made_and_deleted_on_data_or_a_slice_does_not_keep_the_garbage_there(
    where: str,
) -> None:
    world = make_world()
    kept = {world.upload("a", b"1")}
    slice_folder = next(iter(kept)).rpartition("/")[0]
    world.orphan(f"{slice_folder}/orphan", b"orphan")
    folder = "data" if where == "data" else slice_folder
    catalog = world.lake.catalog
    catalog.repositories.create_repository("inner", f"{world.lake.namespace}/{folder}")
    catalog.objects.upload_object("inner", "main", "x", b"committed")
    catalog.commits.commit("inner", "main", committer="tester", message="inner")
    left = {key for key in world.data() if key.startswith((f"{folder}/_lakefs/", f"{folder}/data/"))}
    assert len(left) > 2
    world.age(days=2)
    before = world.data()
    assert world.collect().status == "success"
    assert world.data() == before, "as long as there is the repository, all of its namespace is kept"
    catalog.repositories.delete_repository("inner")
    assert world.collect().status == "success"
    assert world.data() == kept | left


def test_what_a_nested_repository_left_in_a_slice_that_is_not_listed_again_is_kept_by_optimized_runs() -> (
    None
):
    world = make_world(mode="auto")
    world.commit("a", b"1")
    slice_folder = next(iter(world.data())).rpartition("/")[0]
    kept = {world.orphan(f"{slice_folder}/x/_lakefs/1"), world.orphan(f"{slice_folder}/x/data/1")}
    world.age(days=30)
    for _ in range(3):
        run = world.plan(mode="auto")
        assert world.run(run).status == "success"
        assert kept <= world.data()
        world.age(days=1)
    assert run.plan.mode == "optimized"
    assert summary_of(run, "slice_listing").counts["old_objects"] == 0


@pytest.mark.parametrize("request_number", [1, 3])
def test_a_repository_that_is_made_in_a_folder_while_a_run_deletes_keeps_that_folder(
    request_number: int,
) -> None:
    world = make_world(
        tuning={"delete_keys": 1}, safety={"heads_every_seconds": 0.01, "gate_every_seconds": 0}
    )
    kept = {world.upload("a", b"1")}
    for number in range(6):
        world.orphan(f"data/inner/orphan{number}", b"x" * number)
        world.orphan(f"data/slice/orphan{number}", b"x" * number)
    world.age(days=2)
    run = world.marked()
    there: set[str] = set()

    def make(number: int, keys: Sequence[str]) -> None:
        if number == request_number:
            world.lake.catalog.repositories.create_repository("inner", f"{world.lake.namespace}/data/inner")
            there.update(set(world.lake.keys("data/inner/")).difference(keys))
            look()

    with driver_looks() as look, deleting(before=make):
        assert bulk_delete(run, world.runner).status == "success"
    assert len(there) > 3
    assert world.data() >= kept | there
    assert not [key for key in world.data() if key.startswith("data/slice/orphan")]


def test_a_repository_that_was_made_in_a_folder_after_the_mark_keeps_that_folder() -> None:
    world = make_world()
    kept = {world.upload("a", b"1"), world.orphan("data/inner/orphan", b"orphan")}
    world.orphan("data/slice/orphan", b"orphan 2")
    world.age(days=2)
    run = world.marked()
    world.lake.catalog.repositories.create_repository("inner", f"{world.lake.namespace}/data/inner")
    assert bulk_delete(run, world.runner).status == "success"
    assert world.data() >= kept
    assert "data/slice/orphan" not in world.data()


def test_a_repository_in_the_metadata_of_another_one_stops_its_run() -> None:
    with pytest.raises(RefusedError, match="contains"):
        check_namespaces("lake", {"lake": "s3://b/lake", "inner": "s3://b/lake/_lakefs/x"})
    assert check_namespaces("lake", {"lake": "s3://b/lake", "inner": "s3://b/lake/x"})


@pytest.mark.parametrize(
    ("key", "folder"),
    [
        ("data/x/_lakefs/1", "data/x/"),
        ("data/x/dummy", "data/x/"),
        ("data/dummy", "data/"),
        ("data/_lakefs/1", "data/"),
        ("data/x/_lakefs/y/_lakefs/1", "data/x/"),
        ("data/x/my_lakefs/1", ""),
        ("data/x/mydummy", ""),
        ("data/x/dummy/1", ""),
    ],
)
def test_files_that_lakefs_writes_into_a_namespace_show_its_folder(key: str, folder: str) -> None:
    assert left_folder(key) == folder


def test_trap_16_two_repositories_on_one_namespace_stop_the_run() -> None:
    world = make_world()
    kept = world.upload("a", b"1")
    honest = world.client.repositories
    world.client.repositories = lambda: [*honest(), Repository("twin", world.lake.namespace + "/", "main")]
    world.age(days=2)
    with pytest.raises(RefusedError, match="equals"):
        world.collect()
    assert kept in world.data()


@pytest.mark.parametrize(
    ("one", "other", "how"),
    [
        ("s3://b/repo", "s3://b/repo", "equals"),
        ("s3://b/repo", "s3a://b/repo/", "equals"),
        ("s3://b/repo", "s3n://b/repo/inner", "contains"),
        ("s3://b", "s3://b/repo", "contains"),
        ("local:///lake", "file:///lake/x", "contains"),
        ("https://acc.blob.core.windows.net/c/r", "http://acc.blob.core.windows.net/c/r/", "equals"),
        ("local:///base/lake", "local:///base//lake", "equals"),
        ("local:///base/lake", "local:////base/lake", "equals"),
        ("local:///base/lake", "file:///base/./lake/data/x", "contains"),
        ("local:///base/lake", "file:///base/other/../lake/x", "contains"),
        ("local://lake", "local://lake//data/x", "contains"),
        ("https://acc.blob.core.windows.net/c/r", "https://ACC.blob.core.windows.net:443/c/r", "equals"),
        ("https://acc.blob.core.windows.net/c/r", "abfss://c@acc.dfs.core.windows.net./r/x", "contains"),
        ("s3://b/a lake", "s3://b/a%20lake", "equals"),
        ("s3://b/a lake", "s3://b/a%20lake?x=1", "equals"),
        ("s3://b/lake", "s3://b/%6cake/data/x", "contains"),
        ("local:///base/a lake", "local:///base/a%20lake", "equals"),
        ("s3://b/%6cake?x=1", "s3://b/%256cake", "equals"),
        ("s3://b/lake", "s3://me@b/lake/data/x", "contains"),
        ("https://acc.blob.core.windows.net/c/r", "https://me:1@acc.blob.core.windows.net/c/r", "equals"),
        ("https://acc.blob.core.windows.net/c/r", "https://acc.blob.core.windows.net//c/r", "equals"),
        ("https://acc.blob.core.windows.net/c/r", "https://acc.z1.blob.storage.azure.net/c/r/x", "contains"),
        ("https://acc.blob.core.windows.net/c/r", "https://bcc.blob.core.windows.net/c/r", None),
        ("https://acc.blob.core.windows.net/c/r", "https://acc.blob.core.windows.net/c//r", None),
        ("local://me@lake", "local://lake", None),
        ("http://127.0.0.1:10000/acc/c", "http://127.0.0.1/acc/c", None),
        ("s3://b/repo", "s3://b//repo", "equals"),
        ("s3://b/repo", "s3://b///repo/data/x", "contains"),
        ("s3://b/", "s3://b//", "equals"),
        ("s3://b//", "s3://b//data/x", "contains"),
        ("gs://b/repo", "gs://b/x//repo", None),
        ("s3://b/repo", "s3://b/repo2", None),
        ("s3://b/repo", "s3://c/repo", None),
        ("s3://b/repo", "gs://b/repo", None),
        ("s3://b/Repo", "s3://b/repo", None),
    ],
)
def test_trap_15_16_39_namespaces_are_compared_as_places(one: str, other: str, how: str | None) -> None:
    expected = [] if how is None else [how]
    assert [found for _, _, found in overlaps({"one": one, "other": other})] == expected
    assert [found for _, _, found in overlaps({"one": other, "other": one})] == expected


def test_a_folder_is_kept_wherever_a_store_may_see_it() -> None:
    namespaces = {"root": "s3://b", "inner": "s3://b//data/x"}
    assert nested_folders("root", namespaces) == {"/data/x/": "inner", "data/x/": "inner"}


@pytest.mark.parametrize(
    "namespace", ["s3://b/repo//", "s3://b//", "https://acc.blob.core.windows.net/c/r//"]
)
def test_a_namespace_that_ends_with_several_slashes_is_not_collected(namespace: str) -> None:
    with pytest.raises(RefusedError, match="several slashes"):
        check_namespaces("lake", {"lake": namespace})
    assert check_namespaces("other", {"lake": namespace, "other": "s3://c/x"}) == []


def test_a_namespace_that_a_link_leads_to_is_the_same_place(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    lake, link = f"local://{tmp_path}/lake", f"local://{tmp_path}/link"
    assert overlaps({"lake": lake, "twin": link}) == [("lake", "twin", "equals")]
    assert overlaps({"lake": lake, "inner": f"{link}/data/x"}) == [("lake", "inner", "contains")]
    assert overlaps({"twin": link, "inner": f"{link}/data/x"}) == [("twin", "inner", "contains")]


def test_a_namespace_behind_a_link_is_also_where_its_path_says(tmp_path: Path) -> None:
    for name in ("lake", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "lake" / "link").symlink_to(tmp_path / "elsewhere")
    lake, inner = f"local://{tmp_path}/lake", f"local://{tmp_path}/lake/link"
    assert overlaps({"lake": lake, "inner": inner}) == [("lake", "inner", "contains")]
    assert overlaps({"inner": inner, "named": "local://link"}) == [("inner", "named", "may overlap with")]


OVERLAPPING = {
    "lake": "s3://b/lake",
    "x": "s3://b/x",
    "y": "s3://b/x/data/y",
    "z": "s3://b/x/data/y/data/z",
    "apart": "s3://b/apart",
}


def test_trap_15_an_overlap_of_other_repositories_is_a_warning_that_names_every_pair() -> None:
    (warning,) = check_namespaces("lake", OVERLAPPING)
    assert [pair in warning for pair in ("of x (", "of y (", "of z (")] == [True] * 3
    assert warning.count("contains that of") == 3
    assert check_namespaces("x", {"x": "s3://b/x", "lake": "s3://b/lake"}) == []


def test_trap_15_a_repository_that_contains_others_is_told_of_each_folder() -> None:
    assert nested_folders("x", OVERLAPPING) == {"data/y/": "y", "data/y/data/z/": "z"}
    warnings = check_namespaces("x", OVERLAPPING)[:2]
    assert [
        folder in text for folder, text in zip(("data/y/ ", "data/y/data/z/ "), warnings, strict=True)
    ] == [
        True,
        True,
    ]


@pytest.mark.parametrize(("involved", "pairs"), [("y", 1), ("z", 2)])
def test_trap_15_a_repository_that_lies_in_others_is_stopped_with_all_its_pairs_at_once(
    involved: str, pairs: int
) -> None:
    with pytest.raises(RefusedError) as stopped:
        check_namespaces(involved, OVERLAPPING)
    assert str(stopped.value).count("contains that of") == pairs


@pytest.mark.parametrize("folder", ["lake", "a/lake", "datax", "data2/lake", "_lakefsx"])
def test_trap_15_a_repository_below_the_root_of_a_bucket_is_collected(folder: str) -> None:
    namespaces = {"root": "s3://b", "lake": f"s3://b/{folder}"}
    (warning,) = check_namespaces("lake", namespaces)
    assert "root" in warning
    assert len(check_namespaces("root", namespaces)) == 1


@pytest.mark.parametrize("folder", ["data", "data/lake", "_lakefs", "_lakefs/lake", "x/../data/lake"])
def test_trap_15_a_repository_among_the_files_of_one_on_the_root_is_refused(folder: str) -> None:
    with pytest.raises(RefusedError, match="contains"):
        check_namespaces("lake", {"root": "local:///b", "lake": f"local:///b/{folder}"})


def test_trap_15_repositories_on_the_root_of_a_bucket_and_below_it_keep_each_others_objects() -> None:
    world = make_world()
    kept = {world.upload("a", b"1")}
    world.lake.commit()
    kept.add(world.upload("b", b"staged"))
    root = world.lake.namespace.rpartition("/")[0]
    catalog = world.lake.catalog
    catalog.repositories.create_repository("root", root)
    catalog.objects.upload_object("root", "main", "x", b"committed")
    catalog.commits.commit("root", "main", committer="tester", message="root")
    catalog.objects.upload_object("root", "main", "y", b"staged")
    outer = replace(world.lake, repository="root", namespace=root)
    others = set(outer.keys())
    world.orphan("data/slice/orphan")
    outer.objects.put("data/slice/orphan", b"x")
    world.age(days=2)
    for repository in ("lake", "root"):
        assert world.collect(repository=repository).status == "success"
    assert (world.data(), set(outer.keys())) == (kept, others)
    for lake in (world.lake, outer):
        assert [len(lake.read(path)) for path in lake.paths()]


def test_a_repository_that_is_not_listed_is_not_collected() -> None:
    with pytest.raises(RefusedError):
        check_namespaces("lake", {"other": "s3://b/other"})


def test_a_location_outside_the_namespace_is_not_read() -> None:
    assert key_of("s3a://b/repo/_lakefs/x/", "s3://b/repo") == "_lakefs/x/"
    assert (
        key_of("s3://b/repo/_lakefs/run_id=1/commits.csv", "s3://b/repo/") == "_lakefs/run_id=1/commits.csv"
    )
    for elsewhere in ("s3://b/repo2/_lakefs/x", "s3://c/repo/_lakefs/x", "/repo/_lakefs/x"):
        with pytest.raises(RefusedError):
            key_of(elsewhere, "s3://b/repo")


def test_runs_cannot_be_kept_where_a_repository_has_its_data() -> None:
    world = make_world()
    with pytest.raises(ConfigError, match="run_root"):
        world.plan(run_root=f"{world.lake.namespace}/data/runs")
    with pytest.raises(ConfigError, match="run_root"):
        world.plan(run_root="runs")


def test_runs_cannot_be_kept_where_a_link_leads_to_the_data_of_a_repository(tmp_path: Path) -> None:
    (tmp_path / "lake" / "data").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "data")
    lake = Repository("lake", f"local://{tmp_path}/lake", "main")
    for name, refused in {"link": True, "link/runs": True, "lake//data": True, "runs": False}.items():
        config = GCConfig(repository="lake", run_root=f"file://{tmp_path}/{name}")
        with pytest.raises(ConfigError) if refused else nullcontext():
            _run_root(config, lake, {"lake": lake.namespace})


@pytest.mark.parametrize(
    ("named", "may_overlap"),
    [
        ("local://a/data/x", True),
        ("local://a", True),
        ("local://a/", True),
        ("local://base/a", True),
        ("local://base", True),
        ("local://b", False),
        ("local://data/x", False),
        ("local://aa", False),
        ("local://x/a", False),
        ("s3://a/data/x", False),
        ("mem://a", False),
    ],
)
def test_trap_59_a_name_on_a_local_folder_may_lie_in_a_whole_path(named: str, may_overlap: bool) -> None:
    namespaces = {"whole": "local:///base/a", "named": named}
    assert overlaps(namespaces) == ([("whole", "named", "may overlap with")] if may_overlap else [])
    if may_overlap:
        for repository in namespaces:
            with pytest.raises(RefusedError, match=r"whole.*named"):
                check_namespaces(repository, namespaces)
