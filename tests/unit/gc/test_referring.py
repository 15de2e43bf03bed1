"""What another repository names below this namespace is live here, where the settings say which repositories do."""

from collections.abc import Sequence
from typing import Any

import pytest

from dredge.errors import AlarmError, ConfigError, RefusedError, UnavailableError
from dredge.gc.config import GCConfig
from dredge.gc.insight.base_run import open_base
from dredge.gc.insight.cost import cost_of
from dredge.gc.insight.what_if import as_now, what_if
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import KEPT, Target
from dredge.gc.referring import check_referring
from dredge.gc.steps import (
    approve,
    bulk_delete,
    list_committed,
    mark_uncommitted,
    save_report,
    slice_listing,
    verify,
)
from dredge.lakefs.files.ranges import list_tables, read_kinds
from dredge.runs.payload import to_json
from dredge.runs.preflight import Line
from dredge.runs.tasks import LocalRunner, TooManyRowsError
from dredge.storage import open_deleter
from tests.support.gc import World, candidates, deleting, make_world, pending_rows, summary_of
from tests.support.kv_views import Snapshots, open_as
from tests.support.looks import driver_looks
from tests.support.referring import OTHER, expired, import_data, make_importer, stage_there, with_importer

pytestmark = pytest.mark.usefixtures("without_canaries")


def importing(**settings: Any) -> World:
    world = with_importer(**settings)
    world.commit("kept")
    return world


def swept(world: World, **settings: object) -> set[str]:
    before = world.data()
    world.collect(**settings)
    return before - world.data()


@pytest.mark.parametrize(("names", "mode"), [(OTHER, "clean"), ("*", "auto"), (f"lake, {OTHER}", "auto")])
def test_what_another_repository_imported_stays_after_it_expired_here(names: str, mode: str) -> None:
    world = with_importer()
    imported = expired(world)
    garbage = world.orphan("data/slice/garbage")
    world.age(days=2)
    assert swept(world, referring_repositories=names, mode=mode) == {garbage}
    again = world.orphan("data/slice/garbage2")
    world.age(days=9)
    assert swept(world, referring_repositories=names, mode=mode) == {again}
    assert imported in world.data()


def test_another_repository_with_too_many_rows_for_the_worker_is_no_refusal() -> None:
    """The step starts anew on Spark."""
    world = with_importer()
    expired(world)
    run = world.plan(referring_repositories=OTHER)
    slice_listing(run, world.runner)
    mark_uncommitted(run)
    with pytest.raises(TooManyRowsError):
        list_committed(run, LocalRunner(rows_max=0))


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_what_another_repository_names_is_no_candidate(mode: str) -> None:
    world = with_importer(mode=mode)
    imported = expired(world)
    world.age(days=9)
    world.collect(referring_repositories="*")
    staged = world.orphan("data/slice/staged")
    stage_there(world, staged)
    garbage = world.orphan("data/slice/garbage")
    world.age(days=2)
    run = world.marked(referring_repositories="*")
    assert run.plan.mode == ("optimized" if mode == "auto" else "clean")
    assert candidates(run) == {garbage}
    assert {imported, staged} <= world.data()


def test_without_the_setting_it_is_garbage() -> None:
    world = with_importer()
    imported = expired(world)
    assert imported in swept(world)


@pytest.mark.parametrize("read_kv", [False, True])
def test_what_another_repository_has_staged_stays(read_kv: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_importer(read_kv=read_kv)
    if read_kv:
        open_as(Snapshots(world), monkeypatch)
    world.commit("kept")
    staged, garbage = world.orphan("data/slice/staged"), world.orphan("data/slice/garbage")
    stage_there(world, staged)
    world.age(days=2)
    assert swept(world, referring_repositories=OTHER) == {garbage}


@pytest.mark.parametrize("mode", ["clean", "auto"])
def test_an_entry_staged_there_that_equals_the_committed_one_is_no_change_and_stays(mode: str) -> None:
    """Its branch serves it, and no answer about changes shows it; the records of the store do."""
    world = importing(mode=mode)
    world.age(days=2)
    world.collect(referring_repositories=OTHER)
    objects = world.lake.catalog.objects
    stats = objects.upload_object(OTHER, "main", "path", b"orphan")
    world.lake.catalog.commits.commit(OTHER, "main", committer="c", message="m")
    staged, garbage = (
        world.orphan("data/slice/staged"),
        world.orphan("data/slice/garbage", b"of another size"),
    )
    objects.stage_object(
        OTHER,
        "main",
        "path",
        physical_address=f"{world.lake.namespace}/{staged}",
        checksum=stats.checksum,
        size_bytes=stats.size_bytes,
        content_type=stats.content_type,
    )
    assert not world.client.changes(OTHER, "main")
    assert world.client.stat(OTHER, "main", "path").address.endswith(staged)
    world.age(days=2)
    assert swept(world, referring_repositories=OTHER) == {garbage}


def test_staged_entries_that_are_too_many_to_ask_for_stop_the_run() -> None:
    world = importing(safety={"staged_questions_max": 5})
    for number in range(8):
        stage_there(world, world.orphan(f"data/slice/{number}"), f"path{number}")
    world.age(days=2)
    with pytest.raises(RefusedError):
        world.collect(referring_repositories=OTHER)


def test_an_own_entry_of_the_other_repository_with_the_name_of_garbage_keeps_nothing() -> None:
    world = importing()
    stats = world.lake.catalog.objects.upload_object(OTHER, "main", "own", b"own")
    key = stats.physical_address.removeprefix(
        f"{world.lake.catalog.repositories.get_repository(OTHER).storage_namespace}/"
    )
    world.lake.catalog.commits.commit(OTHER, "main", committer="c", message="m")
    garbage = world.orphan(key)
    world.age(days=2)
    assert swept(world, referring_repositories=OTHER) == {garbage}


def test_entries_of_a_deleted_branch_and_of_history_keep_objects_as_well() -> None:
    world = importing()
    world.lake.catalog.branches.create_branch(OTHER, "side", source="main")
    first = world.orphan("data/one/x")
    import_data(world, "data/one/", branch="side")
    world.lake.catalog.branches.delete_branch(OTHER, "side")
    second = world.orphan("data/two/x")
    import_data(world, "data/two/")
    import_data(world, "data/none/")  # replaces the folder
    world.age(days=60)
    assert not {first, second} & swept(world, referring_repositories=OTHER)


def test_an_import_after_the_mark_is_found_by_the_re_check() -> None:
    world = importing()
    imported, garbage = world.orphan("data/one/x"), world.orphan("data/two/x")
    world.age(days=2)
    run = world.marked(referring_repositories=OTHER)
    assert {imported, garbage} <= candidates(run)
    import_data(world, "data/one/")
    for step in (lambda r, _: approve(r), bulk_delete, verify, lambda r, _: save_report(r)):
        step(run, world.runner)
    assert garbage not in world.data()
    assert imported in world.data()


def test_what_is_staged_there_after_the_mark_is_found_by_the_re_check() -> None:
    world = importing()
    staged, garbage = world.orphan("data/one/x"), world.orphan("data/two/x")
    world.age(days=2)
    run = world.marked(referring_repositories=OTHER)
    stage_there(world, staged)
    approve(run)
    bulk_delete(run, world.runner)
    assert garbage not in world.data()
    assert staged in world.data()


BUSY = {
    "tuning": {"delete_keys": 1, "candidate_rows": 1},
    "safety": {"heads_every_seconds": 0.005, "gate_every_seconds": 0},
}


def test_an_import_while_workers_delete_leaves_the_candidates() -> None:
    world = importing(**BUSY)
    names = {world.orphan(f"data/slice/{number}/x") for number in range(6)}
    world.age(days=2)
    imported = set[str]()

    def before(number: int, keys: Sequence[str]) -> None:
        if number == 1:
            imported.update((world.data() & names) - set(keys))
            import_data(world, "data/slice/")
            look()

    run = world.marked(referring_repositories=OTHER)
    approve(run)
    with driver_looks() as look, deleting(before=before):
        summary = bulk_delete(run, world.runner)
    assert len(imported) == 5
    assert imported <= world.data()
    assert summary.status == "success"
    assert len(summary.details["rechecks"]) == 1


def test_a_repository_that_was_made_while_workers_delete_is_read_before_they_go_on() -> None:
    world = importing(**BUSY)
    names = {world.orphan(f"data/slice/{number}/x") for number in range(6)}
    world.age(days=2)
    imported = set[str]()

    def before(number: int, keys: Sequence[str]) -> None:
        if number == 1:
            make_importer(world, "late")
            imported.update((world.data() & names) - set(keys))
            import_data(world, "data/slice/", "late")
            look()

    run = world.marked(referring_repositories="*")
    approve(run)
    with driver_looks() as look, deleting(before=before):
        bulk_delete(run, world.runner)
    assert len(imported) == 5
    assert imported <= world.data()


def test_an_import_between_two_marks_begins_the_wait_anew() -> None:
    world = importing(unsafe_grace_seconds=None, grace_hours=20.0, referring_repositories=OTHER)
    imported, garbage = world.orphan("data/one/x"), world.orphan("data/two/x", b"of another size")
    world.collect_after(days=2)
    import_data(world, "data/one/")
    world.age(days=1)
    run = world.collected()
    assert garbage not in world.data()
    assert imported in world.data()
    assert pending_rows(run)[imported]["status"] == "live"
    world.age(days=1)
    world.collect(referring_repositories=None)
    assert imported in world.data(), "it waits anew, also where the setting is left out"


def test_deleted_objects_that_another_repository_names_come_back_with_an_alarm() -> None:
    world = importing(undo="quarantine")
    imported = world.orphan("data/one/x")
    stage_there(world, imported)
    also = world.orphan("data/two/x")
    import_data(world, "data/two/", branch=side_branch(world))
    world.age(days=2)
    assert swept(world) == {imported, also}
    with pytest.raises(AlarmError):
        world.collect(referring_repositories=OTHER)
    assert {imported, also} <= world.data()


def side_branch(world: World) -> str:
    world.lake.catalog.branches.create_branch(OTHER, "side", source="main")
    return "side"


def test_a_name_that_the_server_does_not_list_stops_the_plan() -> None:
    world = make_world()
    world.upload("kept")
    with pytest.raises(ConfigError):
        world.plan(referring_repositories="importre")
    with pytest.raises(ConfigError):
        world.plan(referring_repositories="*, importer")


def test_a_repository_that_was_deleted_since_stops_the_mark() -> None:
    world = with_importer()
    garbage = world.orphan("data/slice/x")
    world.age(days=2)
    run = world.plan(referring_repositories=OTHER)
    world.lake.catalog.repositories.delete_repository(OTHER)
    with pytest.raises(ConfigError):
        world.run(run)
    assert garbage in world.data()


@pytest.mark.parametrize("kind", ["ranges", "metaranges"])
def test_a_repository_with_a_missing_file_stops_the_run(kind: str) -> None:
    world = with_importer()
    expired(world)
    garbage = world.orphan("data/slice/x")
    world.age(days=2)
    uri = world.lake.catalog.repositories.get_repository(OTHER).storage_namespace
    there = world.lake.open_namespace(uri)
    kinds = read_kinds(there, list_tables(there).values())
    names = [f"_lakefs/{name}" for name, found in kinds.items() if found == kind]
    assert names
    open_deleter(uri).delete(names)
    with pytest.raises(RefusedError):
        world.collect(referring_repositories=OTHER)
    assert garbage in world.data()


def test_a_server_that_does_not_answer_for_it_is_tried_again() -> None:
    world = with_importer()
    world.age(days=2)
    run = world.plan(referring_repositories=OTHER)

    def before(name: str, arguments: tuple[object, ...]) -> None:
        if name == "branches" and arguments == (OTHER,):
            raise UnavailableError("down")

    world.client.before = before
    with pytest.raises(UnavailableError):
        world.run(run)


def test_a_repository_that_refers_no_more_makes_the_next_run_a_clean_one() -> None:
    world = with_importer(mode="auto")
    imported = expired(world)
    world.age(days=9)
    world.collect(referring_repositories=OTHER)
    world.age(days=1)
    run = world.collected()
    assert run.plan.mode == "clean"
    assert imported not in world.data()
    assert summary_of(run, "subtract").details["drift"]["unexplained_objects"] == 0


def test_why_names_the_repository_that_keeps_an_object() -> None:
    world = with_importer()
    imported = expired(world)
    world.collect(dry_run=True, referring_repositories=OTHER)
    target = Target(world.lake.repository, world.lake.namespace, imported)
    answer = why(world.client, target, world.lake.clock())
    assert (answer.verdict, answer.referring) == (KEPT, [OTHER])


def test_what_another_repository_keeps_is_a_kind_of_its_own_and_no_rule_would_free_it() -> None:
    world = with_importer()
    expired(world)
    run = world.collected(dry_run=True, referring_repositories=OTHER)
    base = open_base(run.plan.run_uri)
    assert to_json(cost_of(base))["kinds"]["referring"]["objects"] == 1
    (as_it_is,) = what_if(base, as_now(base.rules))
    assert as_it_is.freed.objects == 0


def lines(world: World, names: str | None = None, **bounds: Any) -> list[Line]:
    config = GCConfig(repository=world.lake.repository, referring_repositories=names)
    return list(check_referring(config, world.client, world.lake.namespace, None, **bounds))


def test_a_repository_that_imported_from_here_is_named_until_the_settings_name_it() -> None:
    world = with_importer()
    world.orphan("data/slice/x")
    make_importer(world, "bystander")
    assert [line.level for line in lines(world)] == ["ok"]
    import_data(world)
    (line,) = lines(world)
    assert line.level == "warning"
    assert OTHER in line.todo
    assert [line.level for line in lines(world, OTHER)] == ["ok"]
    assert [line.level for line in lines(world, "*")] == ["ok"]


def test_an_import_below_the_first_folders_is_seen_and_requests_are_few() -> None:
    world = with_importer()
    world.orphan("data/slice/x")
    for number in range(250):
        world.lake.catalog.objects.upload_object(OTHER, "main", f"a/{number:03d}", b"")
    world.lake.catalog.commits.commit(OTHER, "main", committer="c", message="m")
    import_data(world)
    asked: list[str] = []
    world.client.before = lambda name, _arguments: asked.append(name)
    assert [line.level for line in lines(world)] == ["warning"]
    assert asked.count("objects_page") == 2
    for number in range(5):
        make_importer(world, f"more-{number}")
    asked.clear()
    lines(world, repositories_max=2)
    assert asked.count("objects_page") <= 10


def test_a_named_repository_that_cannot_be_read_is_an_error() -> None:
    world = with_importer()
    world.client.before = refuse_branches
    assert [line.level for line in lines(world, OTHER)] == ["error", "ok"]


def refuse_branches(name: str, _arguments: tuple[Any, ...]) -> None:
    if name == "branches":
        raise RefusedError("not allowed to fs:ListBranches")
