"""Which repositories are collected, and why the others are left out."""

from types import SimpleNamespace
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.gc.many import ManyConfig, choose_repositories
from dredge.lakefs import Repository
from dredge.xid import new_descending_xid
from tests.support.gc import make_world

NAMES = ("lake", "pond", "team-a", "team-b")


def server(*more: Repository) -> Any:
    found = [Repository(name, f"memory://choose/{name}", "main", False) for name in NAMES]
    return SimpleNamespace(repositories=lambda: [*reversed(found), *more])


@pytest.mark.parametrize(
    ("wanted", "unwanted", "names"),
    [
        ("*", None, list(NAMES)),
        ("team-*", None, ["team-a", "team-b"]),
        ("lake, team-?", "team-b", ["lake", "team-a"]),
        ("pond\nlake", None, ["lake", "pond"]),
        ("*", "*", []),
    ],
)
def test_names_and_globs_choose(wanted: str, unwanted: str | None, names: list[str]) -> None:
    config = ManyConfig(repositories=wanted, exclude=unwanted)
    assert choose_repositories(config, server()).repositories == names


def test_a_name_that_the_server_does_not_have_is_told_of() -> None:
    chosen = choose_repositories(ManyConfig(repositories="lake sea no-*"), server())
    assert chosen.repositories == ["lake"]
    assert chosen.left_out == {"sea": "the server has no such repository"}


def test_a_read_only_repository_is_left_out() -> None:
    still = Repository("still", "memory://choose/still", "main", True)
    chosen = choose_repositories(ManyConfig(repositories="still pond"), server(still))
    assert chosen.repositories == ["pond"]
    assert "read-only" in chosen.left_out["still"]


def test_a_repository_of_another_collector_is_left_out_with_the_reason_and_the_others_are_not() -> None:
    world = make_world()
    world.age(days=1)
    run_id = new_descending_xid(world.lake.clock())
    world.lake.objects.put(f"_lakefs/retention/gc/unified/{run_id}/summary.json", b"{}")
    busy = Repository("busy", world.lake.namespace, "main", False)
    chosen = choose_repositories(ManyConfig(repositories="busy pond"), server(busy))
    assert chosen.repositories == ["pond"]
    assert run_id in chosen.left_out["busy"]


def test_a_repository_whose_store_does_not_answer_is_left_to_its_own_run() -> None:
    broken = Repository("broken", "ftp://nowhere/at-all", "main", False)
    chosen = choose_repositories(ManyConfig(repositories="broken pond"), server(broken))
    assert chosen.repositories == ["broken", "pond"]
    assert chosen.left_out == {}


@pytest.mark.parametrize(
    ("given", "run_root", "root"),
    [
        (None, None, "memory://choose/lake/_lakefs/retention/gc/dredge"),
        (None, "memory://runs/", "memory://runs"),
        ("memory://pages", "memory://runs", "memory://pages"),
    ],
)
def test_where_the_summary_goes(given: str | None, run_root: str | None, root: str) -> None:
    config = ManyConfig(summary_root=given)
    assert choose_repositories(config, server(), None, run_root).summary_root == root


def test_a_folder_for_summaries_is_a_uri() -> None:
    with pytest.raises(ConfigError, match="'here'"):
        ManyConfig(summary_root="here")
