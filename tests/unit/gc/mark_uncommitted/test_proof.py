"""What a server loses from a scan of staging is made good, or nothing is deleted."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted import staging
from dredge.gc.mark_uncommitted.proof import Proof, _Prover, prove
from dredge.gc.mark_uncommitted.staged import Extent
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.sets.hashes import unite
from lakefs_embedded.catalog.uncommitted import UncommittedPage
from tests.support.gc import World, make_world, seen_with, stage_again, summary_of
from tests.support.lossy_scans import latin_1, over_json, stormy_world
from tests.support.storms import Storm


@pytest.mark.parametrize(
    ("names", "remake"),
    [(["mm"], False), (["ab", "y"], True)],
    ids=["born and gone", "two made again"],
)
def test_sweep_keeps_staged_objects_while_branches_come_and_go_within_each_page(
    names: list[str], remake: bool
) -> None:
    world, living, orphan = stormy_world(clean=200)
    with Storm(world, names, remake=remake) as storm:
        context = world.collected()
    assert storm.deleted == len(names) * storm.calls
    assert storm.calls == 2  # the mark's and the re-check's
    assert living <= world.data()
    assert orphan not in world.data()
    counts = summary_of(context, "mark_uncommitted").counts
    assert (counts["files"], counts["empty_pages"], counts["scans"]) == (0, 1, 1)
    assert counts["unscanned_addresses"] == counts["rows"] == 50


@pytest.mark.parametrize(("guard", "answer"), [("_tells", True), ("after", None)])
def test_pages_without_location_and_ends_of_branches_are_two_guards(
    monkeypatch: pytest.MonkeyPatch, guard: str, answer: bool | None
) -> None:
    if guard == "_tells":
        monkeypatch.setattr(_Prover, "_tells", lambda *_: answer)
    else:
        monkeypatch.setattr(Extent, "after", lambda *_: answer)
    world, living, orphan = stormy_world()
    with Storm(world, ["mm"]):
        world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_sweep_keeps_what_is_lost_in_the_middle_of_several_pages() -> None:
    """The page that is thrown away begins inside one branch and ends at another; those around it are whole."""
    world, living, orphan = stormy_world(clean=5)
    world = seen_with(world, prepare_flush_rows=1, prepare_file_bytes_max=2000)
    living |= {world.upload(f"path/{number}", b"z%d" % number, "zz") for number in range(5)}
    world.age(days=2)
    with Storm(world, ["mm"], slow="n002"):
        context = world.collected()
    assert living <= world.data()
    assert orphan not in world.data()
    counts = summary_of(context, "mark_uncommitted").counts
    assert counts["pages"] > 2
    assert counts["empty_pages"] == 1
    assert 0 < counts["unscanned_addresses"] < 50


def test_a_grace_does_not_stand_for_the_proof_of_the_re_checks_scan() -> None:
    """Two marks, a grace apart, have found the object, each with its proof. It is staged again after the second one,
    and the scan of the re-check, which alone could see that, loses the page: without its own proof the object is lost.
    """
    world, living, orphan = stormy_world(unsafe_grace_seconds=None, grace_hours=20)
    again = world.orphan("data/slice/again")
    world.collect_after(days=2)
    world.age(hours=21)
    context = world.marked()
    stage_again(world, again, "again", branch="aa")
    with Storm(world, ["mm"]):
        world.run(context)
    assert again in world.data()
    assert orphan not in world.data()
    assert living <= world.data()


def test_where_no_scan_can_be_proved_nothing_is_deleted() -> None:
    world, living, orphan = stormy_world(safety={"staged_questions_max": 3})
    with (
        Storm(world, ["mm"]) as storm,
        pytest.raises(RefusedError, match=r"5 scans.*\baa\b"),
    ):
        world.collect()
    assert storm.calls == 5
    assert {orphan, *living} <= world.data()


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[Any], bool]], None]:
    """Ends the rows of branches early, unreported as on a real server. No path is asked about by chance."""
    honest = UncommittedPage._uncommitted

    def lose(rows: int, is_cut: Callable[[Any], bool]) -> None:
        def cut(page: Any, branch: Any, start: str) -> Iterator[Any]:
            return itertools.islice(honest(page, branch, start), rows if is_cut(branch) else None)

        monkeypatch.setattr(UncommittedPage, "_uncommitted", cut)
        monkeypatch.setattr(staging, "prove", partial(prove, by_chance=0))

    return lose


def overwrite_the_last(world: World) -> None:
    world.upload("path/0049", b"another", "aa")


def append(world: World) -> None:
    for number in range(40):
        world.upload(f"path/new{number}", b"%d" % number, "aa")


@pytest.mark.parametrize("meanwhile", [lambda _: None, overwrite_the_last, append])
def test_sweep_keeps_the_rest_of_a_branch_that_ends_too_early_in_the_scan(
    losing: Any, meanwhile: Callable[[World], None]
) -> None:
    world, living, orphan = stormy_world()
    losing(3, lambda _: True)
    served = world.served("aa")

    def write(name: str, _: object) -> None:
        if name == "prepare_uncommitted":
            meanwhile(world)

    world.client.before = write
    world.collect()
    overwritten = {served["path/0049"]} if meanwhile is overwrite_the_last else set()
    assert living - overwritten <= world.data()
    assert orphan not in world.data()


def test_an_object_with_new_metadata_on_two_branches_does_not_prove_the_end_of_either(losing: Any) -> None:
    world, living, orphan = stormy_world(safety={"canary_objects": 0})
    catalog, name = world.lake.catalog, world.lake.repository
    for number in range(3):
        world.upload(f"zz/{number}", b"shared %d" % number)
    world.lake.commit()
    for branch in ("ab", "yy"):
        catalog.branches.create_branch(name, branch, "main")
        for number in range(3):
            catalog.objects.update_user_metadata(name, branch, f"zz/{number}", {"on": branch})
    living |= {world.upload(f"path/{number:04d}", b"ab %d" % number, "ab") for number in range(9)}
    world.age(days=2)
    losing(2, lambda branch: branch.tokens == world.lake.tokens("ab"))
    world.collect()
    assert living <= world.data()
    assert orphan not in world.data()


def test_a_page_that_ends_at_a_path_that_is_not_utf8_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    world, living, orphan = stormy_world(staged=5, safety={"canary_objects": 0})
    world = seen_with(world, prepare_flush_rows=1, prepare_file_bytes_max=1000)
    living |= {world.upload(latin_1(f"caf\xe9/{number:04d}"), b"l%d" % number, "aa") for number in range(60)}
    world.age(days=2)
    over_json(world, monkeypatch)
    with pytest.raises(RefusedError, match=r"not UTF-8.*kv_conn_id"):
        world.collect()
    assert {orphan, *living} <= world.data()


def test_an_old_object_that_was_staged_after_the_scan_is_kept_and_costs_no_other_scan() -> None:
    world, living, orphan = stormy_world()
    again = world.orphan("data/slice/again")
    world.age(days=2)

    def stage() -> None:
        stage_again(world, again, "z-again", branch="aa")

    with world.during("changes", stage):
        context = world.collected()
    assert {again, *living} <= world.data()
    assert orphan not in world.data()
    assert summary_of(context, "mark_uncommitted").counts["scans"] == 1


class Looks:
    def __init__(self, **settings: Any) -> None:
        self.world = make_world(**settings)
        self.staged: dict[tuple[str, str], str] = {}
        for branch, count in (("one", 1), ("many", 6)):
            self.world.lake.catalog.branches.create_branch(self.world.lake.repository, branch, "main")
            for number in range(count):
                self.put(branch, f"path/{number}")
        self.world.age(days=2)
        self.asked: Counter[tuple[str, str]] = Counter()

    def put(self, branch: str, path: str) -> str:
        address = self.world.upload(path, f"{branch} {path}".encode(), branch)
        self.staged[branch, path] = address
        return address

    def prove(
        self,
        *lost: tuple[str, str],
        extents: Iterable[Extent] = (),
        everything: bool = False,
        give_up_at: int | None = None,
        **looks: int,
    ) -> Proof:
        scanned = [address for place, address in self.staged.items() if place not in lost]
        hashes = unite([hash64(pa.array(scanned, pa.string()))])

        def note(name: str, arguments: tuple[Any, ...]) -> None:
            if name == "stat":
                self.asked[arguments[1:]] += 1

        self.world.client.before = note
        return prove(self.run, self.heads(), hashes, list(extents), everything, give_up_at, **looks)

    @property
    def run(self) -> Run:
        if not hasattr(self, "_run"):
            self._run = self.world.plan()
        return self._run

    def heads(self) -> dict[str, str]:
        found = self.world.client.branches(self.world.lake.repository)
        return {branch.id: branch.commit_id for branch in found}


@pytest.fixture
def looks() -> Looks:
    return Looks()


def test_what_was_written_since_the_scan_tells_nothing_and_what_lies_before_it_does(looks: Looks) -> None:
    young = {looks.put("many", f"path/{number}") for number in (6, 7)}
    found = looks.prove(("many", "path/6"), ("many", "path/7"))
    assert (found.lost, found.asked_for_all, found.missing) == (None, 0, "")
    assert found.addresses == young, "live all the same"


def test_where_none_of_the_last_paths_tells_anything_the_branch_is_asked_for_everything(looks: Looks) -> None:
    young = [("many", f"path/{number}") for number in (6, 7)]
    for place in young:
        looks.put(*place)
    found = looks.prove(*young, ("many", "path/0"), tail=2, by_chance=0)
    assert (found.lost, found.asked_for_all) == (None, 1)
    assert found.addresses == {looks.staged[place] for place in [*young, ("many", "path/0")]}


def new_metadata(looks: Looks) -> None:
    catalog, name = looks.world.lake.catalog, looks.world.lake.repository
    catalog.objects.update_user_metadata(name, "many", "path/5", {"a": "b"})


def new_object(looks: Looks) -> None:
    looks.world.upload("path/5", b"another", "many")


@pytest.mark.parametrize(("change", "asked"), [(new_metadata, 1), (new_object, 0)])
def test_new_metadata_of_what_the_head_has_prove_nothing_and_a_new_object_does(
    change: Callable[[Looks], None], asked: int
) -> None:
    looks = Looks()
    looks.world.lake.commit(branch="many")
    change(looks)
    looks.staged["many", "path/5"] = looks.world.served("many")["path/5"]
    looks.world.age(days=2)
    found = looks.prove(by_chance=0)
    assert (found.lost, found.asked_for_all) == (None, asked)
    assert looks.asked[looks.heads()["many"], "path/5"] == 1, "what the head has there"
