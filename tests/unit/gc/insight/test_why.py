"""`dredge gc why`: everything that keeps an object is named, with the day it ends; a deletion is told by its run."""

from datetime import timedelta

import pytest

from dredge.errors import AwaitingApprovalError, ConfigError, NotFoundError, RefusedError
from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import Answer, UnnamedBy, answer_lines, find_target
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.witness.people import forget_lost
from dredge.runs.payload import to_json
from dredge.storage import open_deleter
from tests.support.approvals import said
from tests.support.gc import World, make_world
from tests.support.kv_views import store_of
from tests.support.lost_database import back_up, restore
from tests.support.policies import policy


def ask(world: World, given: str, **more: object) -> Answer:
    found = find_target(world.client, given, None if "://" in given else world.lake.repository)
    return why(world.client, found, world.lake.clock(), **more)  # type: ignore[arg-type]


def text(answer: Answer) -> str:
    return "\n".join(answer_lines(answer))


@pytest.fixture
def world() -> World:
    world = make_world()
    world.rules(30, side=90)
    return world


def test_a_committed_object_names_its_commits_and_the_day_their_rule_ends(world: World) -> None:
    address = world.upload("a/b", b"1")
    first = world.lake.commit()
    world.age(days=10)
    world.lake.catalog.branches.create_branch(world.lake.repository, "side", "main")
    world.lake.catalog.objects.delete_object(world.lake.repository, "main", "a/b")
    second = world.lake.commit()
    world.lake.catalog.tags.create_tag(world.lake.repository, "v1", first.id)
    world.age(days=2)
    world.collect(dry_run=True)
    answer = ask(world, "lakefs://lake/v1/a/b")
    assert (answer.target.address, answer.verdict) == (address, "kept")
    (commit,) = answer.commits
    assert (commit.commit_id, commit.paths, commit.tags) == (first.id, ("a/b",), ("v1",))
    assert (commit.heads, set(commit.branches), commit.num_branches) == (("side",), {"side", "main"}, 2)
    # Were it no head any more, the rule of main would let it go 30 days after its child was made.
    assert commit.until == second.creation_date + timedelta(days=30)
    assert "main" in commit.rule


def test_an_object_that_only_an_expired_commit_names_is_garbage_and_says_which(world: World) -> None:
    address = world.commit("a", b"1")
    world.age(days=1)
    world.commit("a", b"2")
    world.age(days=40)
    world.collect(dry_run=True)
    answer = ask(world, address)
    assert (answer.verdict, [commit.active for commit in answer.commits]) == ("garbage", [False])
    assert answer.judged is not None
    assert (answer.judged.reason, answer.judged.outcome) == ("expired", "")
    assert "expired   " in text(answer)


def test_a_staged_object_names_branch_and_path_and_what_could_not_be_looked_at(world: World) -> None:
    address = world.upload("dir/s", b"1")
    world.age(days=2)
    answer = ask(world, address)
    assert [(item.branch, item.path) for item in answer.staged] == [("main", "dir/s")]
    assert answer.verdict == "kept"
    assert "DREDGE_KV_URL" in text(answer)
    # Nobody may ask: then a run that saw it staged is all that tells.
    world.collect(dry_run=True)
    answer = ask(world, address, requests_max=0)
    assert [(item.branch, item.as_of is None) for item in answer.staged] == [("", False)]


def test_an_object_that_only_a_metarange_without_a_commit_names_says_so(world: World) -> None:
    world.commit("a", b"1")
    world.age(days=2)
    world.collect(dry_run=True)
    backup = back_up(world)
    address = world.upload("new/b", b"lost")
    written_at = world.lake.clock()
    metarange_id = world.lake.commit().metarange_id
    world.age(days=2)
    restore(world, backup)
    answer = ask(world, address)
    assert (answer.verdict, answer.commits) == ("kept", [])
    assert answer.unnamed == [
        UnnamedBy(metarange_id, written_at, written_at + timedelta(days=30), ("new/b",))
    ]
    assert to_json(answer)["unnamed"][0]["metarange_id"] == metarange_id
    forget_lost(world.client, "lake", "not wanted", 30)
    world.age(hours=1)
    assert ask(world, address).verdict == "garbage"


def test_a_deleted_object_names_who_approved_its_run(world: World) -> None:
    address = world.orphan("data/gone")
    world.age(days=2)
    run = world.plan(approval="always")
    with pytest.raises(AwaitingApprovalError):
        world.run(run)
    said(run, by="ada")
    run.lease.renew(run.plan.lease)
    world.run(run)
    answer = ask(world, address)
    assert answer.judged is not None
    assert answer.judged.approved_by == "ada"
    assert to_json(answer)["judged"]["approved_at"] is not None


def test_a_deleted_object_names_the_run_that_deleted_it(world: World) -> None:
    address = world.orphan("data/orphan")
    world.collect_after(days=2)
    world.collect_after(hours=1)
    answer = ask(world, address)
    assert (answer.verdict, answer.size_bytes) == ("deleted", None)
    assert answer.judged is not None
    assert (answer.judged.outcome, answer.judged.reason) == ("deleted", "unreferenced")


def test_a_held_object_says_what_holds_it(world: World) -> None:
    world.commit("a", b"same")
    world.age(days=1)
    again = world.upload("a", b"same")  # lakeFS keeps the entry, and a branch reads this copy
    world.age(days=2)
    world.collect(dry_run=True)
    answer = ask(world, again)
    assert (answer.verdict, answer.judged is not None) == ("kept", True)
    assert answer.judged is not None
    assert answer.judged.hold.startswith("identical")


def test_a_policy_that_keeps_it_is_named(world: World) -> None:
    address = world.commit("a", b"1")
    world.age(days=1)
    world.commit("a", b"2")
    world.age(days=40)
    keep = policy("name: ten, branches: main, last: 10")
    world.collect(dry_run=True, policy=to_json(keep))
    answer = ask(world, address)
    assert (answer.verdict, answer.commits[0].policies) == ("kept", ("ten",))
    for paths, verdict in (("a*", "kept"), ("b*", "garbage")):
        other = ask(world, address, policy=policy(f'name: some, branches: main, paths: "{paths}"'))
        assert other.verdict == verdict


def test_an_object_that_is_named_and_not_there_is_called_missing(world: World) -> None:
    address = world.commit("a", b"1")
    world.age(days=2)
    world.collect(dry_run=True)
    open_deleter(world.lake.namespace).delete([address])
    assert ask(world, address).verdict == "missing"


def test_asking_changes_nothing(world: World) -> None:
    address = world.commit("a", b"1")
    world.age(days=2)
    world.collect(dry_run=True)
    before = {key: world.lake.objects.get(key) for key in world.lake.keys("")}
    rows = world.lake.rows(world.lake.tokens()[0])
    ask(world, address)
    assert {key: world.lake.objects.get(key) for key in world.lake.keys("")} == before
    assert world.lake.rows(world.lake.tokens()[0]) == rows


def test_what_is_asked_about_must_be_an_object_of_a_repository(world: World) -> None:
    world.upload("a", b"1")
    full = f"{world.lake.namespace}/data/x"
    assert find_target(world.client, full).address == "data/x"
    with pytest.raises(ConfigError, match="--repository"):
        find_target(world.client, "data/x")
    with pytest.raises(ConfigError, match="_lakefs/"):
        find_target(world.client, "_lakefs/x", "lake")
    with pytest.raises(ConfigError, match="no repository"):
        find_target(world.client, "memory://elsewhere/x")
    with pytest.raises(ConfigError, match="lakefs://repository/ref/path"):
        find_target(world.client, "lakefs://lake/main")
    with pytest.raises(NotFoundError):
        find_target(world.client, "lakefs://lake/main/nothing")


@pytest.mark.parametrize(("repository", "namespace"), [("another", ""), ("lake", "memory://elsewhere/lake")])
def test_the_store_of_another_installation_is_refused(
    repository: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world()
    store_of(world, monkeypatch)
    place = namespace or world.lake.namespace
    access = KVAccess.from_env()  # opened by the test in another way
    with pytest.raises(RefusedError), KVAccess.records(access, repository, place) as records:
        records.commits()
