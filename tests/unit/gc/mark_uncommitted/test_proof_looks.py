"""What the ends of branches, and some paths by chance, say of a scan; whatever a test says was scanned, was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

from dredge.gc.mark_uncommitted.proof import Proof, prove
from dredge.gc.mark_uncommitted.staged import Extent
from dredge.gc.run import Run
from dredge.hashing import hash64
from dredge.sets.hashes import unite
from tests.support.gc import make_world


class Looks:
    """Branches with old staged objects, and the proof of a scan.

    Attributes:
        world: with the branches `main`, without changes, `one` with a single one, and `many` with six.
        run: of it.
        staged: every staged address, by branch and path.
        asked: questions about single paths, by ref and path.
    """

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
        """Stage an object."""
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
        """Prove a scan that gave every staged object, but for those under some paths."""
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


def test_a_scan_that_lost_nothing_is_proved_by_the_last_path_of_each_branch(looks: Looks) -> None:
    """For each branch its changes and their end, and where it has any a last page and the last path."""
    found = looks.prove()
    assert found == Proof(branches=3, changed_branches=2, changes=7, questions=2 + 4 + 4)
    assert looks.asked == Counter({("one", "path/0"): 1, ("many", "path/5"): 1})


def test_an_old_object_at_the_end_that_was_not_scanned_has_every_branch_asked_for_everything(
    looks: Looks,
) -> None:
    found = looks.prove(("many", "path/5"), ("many", "path/1"), ("one", "path/0"), extents=[])
    assert found.lost in {(*place, looks.staged[place]) for place in [("many", "path/5"), ("one", "path/0")]}
    assert found.asked_for_all == 2, "a branch without changes has nothing to be asked for"
    assert found.addresses == {
        looks.staged[place] for place in [("many", "path/5"), ("many", "path/1"), ("one", "path/0")]
    }
    assert (found.missing, found.too_many) == ("", None)


@pytest.mark.parametrize("begins", [(20, 40), (40, 20)])
def test_a_branch_is_asked_from_where_the_first_of_the_pages_began_that_may_have_lost_rows_of_it(
    looks: Looks, begins: tuple[int, int]
) -> None:
    extents = [Extent("many", f"path/{number}", "many", True) for number in begins]
    lost = [("many", f"path/{number}") for number in (3, 4)]
    found = looks.prove(*lost, extents=extents, by_chance=0)
    assert (found.lost, found.asked_for_all) == (None, 1)
    assert found.addresses == {looks.staged[place] for place in lost}


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


def test_a_row_that_is_lost_in_the_middle_is_found_where_chance_looks(looks: Looks) -> None:
    found = looks.prove(("many", "path/2"), by_chance=6, tail=1)
    assert found.lost == ("many", "path/2", looks.staged["many", "path/2"])
    assert looks.asked["many", "path/5"] == 2, "at the end, and when all are asked for"
