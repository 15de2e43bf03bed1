"""The offline protocol beside all possible concurrent events, whole and with a rule left out."""

from collections.abc import Callable
from dataclasses import fields, replace

from tests.simulation.proposals import lake, offline
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import Branch, Commit, losses
from tests.simulation.proposals.offline import START, Rules
from tests.simulation.proposals.world import Actor, Flow, World, after, wait_until

HOURS = 2
NEXT_RUN = START + 20
RULES = tuple(field.name for field in fields(Rules))


def _scene(
    world: World, rules: Rules, actors: dict[str, Actor], hours: int = HOURS, crashes: int = 0
) -> Scene:
    offline.put_old(world, "data/old")
    return Scene(
        world,
        {"Collector": lambda: offline.collect(rules, requests=hours > 0), **actors},
        losses,
        later=(("next run", lambda: _next(rules)),),
        at_rest=lake.leaks,
        hours=hours,
        crashes=crashes,
    )


def _next(rules: Rules) -> Flow[object]:
    yield wait_until(NEXT_RUN)
    return (yield from offline.collect(rules, "B", requests=False))


def _staged() -> World:
    return offline.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})


def _committed() -> World:
    world = offline.world(objects=("data/a",), head="c1", c1=Commit("c0", offline.entries_of(x="data/a")))
    world.kv["branch/main"] = Branch("c1", "t1")
    return world


def _with_dev() -> World:
    world = offline.world(objects=("data/a",), c1=Commit("c0", offline.entries_of(x="data/a")))
    world.kv["branch/dev"] = Branch("c1", "d1")
    return world


def upload_and_commit(rules: Rules) -> Scene:
    return _scene(
        offline.world(),
        rules,
        {
            "Writer": lambda: after(
                lambda: offline.upload("x", "data/a"), lambda: lake.commit("main", "c1", "t2")
            )
        },
        hours=0,
    )


def commit_of_old(rules: Rules) -> Scene:
    return _scene(_staged(), rules, {"Committer": lambda: lake.commit("main", "c1", "t2")})


def reset(rules: Rules) -> Scene:
    return _scene(_staged(), rules, {"Writer": lambda: offline.reset("t2")})


def late_link(rules: Rules) -> Scene:
    return _scene(offline.world(), rules, {"Client": lambda: offline.link_late("x", "data/a")})


def upload_in_parts(rules: Rules) -> Scene:
    return _scene(offline.world(), rules, {"Client": lambda: offline.upload_in_parts("x", "data/a")})


def merge_and_delete(rules: Rules) -> Scene:
    return _scene(_with_dev(), rules, {"Merger": lambda: offline.merge_and_delete("dev", "c2")})


def leave_behind() -> Flow[object]:
    """Content of the head is staged again, and the branch moves back to the commit before."""
    return after(lambda: offline.set_metadata("x"), lambda: offline.hard_reset("c0"))


def commit_and_leave(rules: Rules) -> Scene:
    """An object moves from staging to a commit and back, and the commit is left dangling; then again."""
    return _scene(
        _staged(),
        rules,
        {
            "Writer": lambda: after(
                lambda: lake.commit("main", "c1", "t2"), leave_behind, lambda: lake.commit("main", "c2", "t3")
            )
        },
        hours=0,
    )


def leave_twice(rules: Rules) -> Scene:
    return _scene(
        _staged(),
        rules,
        {
            "Writer": lambda: after(
                lambda: lake.commit("main", "c1", "t2"),
                leave_behind,
                lambda: lake.commit("main", "c2", "t3"),
                leave_behind,
            )
        },
        hours=0,
    )


def come_back(token: str) -> Flow[object]:
    """The branch moves to the commit again, and its staged entries are dropped."""
    return after(lambda: offline.hard_reset("c1"), lambda: offline.reset(token))


def leave_and_come_back(rules: Rules) -> Scene:
    """An object moves from an old commit to staging and back, again and again; nothing is committed."""
    return _scene(
        _committed(),
        rules,
        {
            "Writer": lambda: after(
                leave_behind, lambda: come_back("t2"), leave_behind, lambda: come_back("t3"), leave_behind
            )
        },
        hours=0,
    )


def restore(rules: Rules) -> Scene:
    """Restore an unreferenced object after the end of the run's time, but not of its process."""
    world = offline.put_old(offline.world(), "data/a")
    return _scene(
        world,
        rules,
        {"Restorer": lambda: offline.restore("x", "data/a", START + offline.LEASE_HOURS + 1)},
        hours=offline.LEASE_HOURS + 2,
    )


def two_runs(rules: Rules) -> Scene:
    return _scene(_staged(), rules, {"Second run": lambda: offline.collect(rules, "B")}, hours=1)


def run_dies(rules: Rules) -> Scene:
    return _scene(_staged(), rules, {"Writer": lambda: offline.reset("t2")}, crashes=1)


SCENES: dict[str, tuple[Callable[[Rules], Scene], str]] = {
    "upload-commit": (upload_and_commit, "an upload, then a commit"),
    "commit": (commit_of_old, "a commit of an old staged object"),
    "reset": (reset, "a reset"),
    "late-link": (late_link, "an address that is linked as late as is allowed"),
    "parts": (upload_in_parts, "an upload in parts ends, whose object looks old from birth"),
    "merge": (merge_and_delete, "a merge, then its branch is deleted"),
    "commit-leave": (commit_and_leave, "commit, new metadata, hard reset, commit"),
    "come-back": (leave_and_come_back, "new metadata, hard reset, and both undone, again and again"),
    "restore": (restore, "an unreferenced object is restored under the lease, after the run's time"),
    "two-runs": (two_runs, "a second run"),
    "dies": (run_dies, "the collector or a writer dies"),
}
"""Concurrent events of a run."""

LONG_SCENES: dict[str, tuple[Callable[[Rules], Scene], str]] = {
    "leave-twice": (leave_twice, "commit, new metadata, hard reset, and all of that again")
}
"""The same, with many states."""


def scene_named(name: str) -> tuple[Callable[[Rules], Scene], str]:
    return (SCENES | LONG_SCENES)[name]


WEAKENED = {
    "staging_first": ("come-back", "staging is read after commits"),
    "listing_first": ("parts", "the listing is read while deleting"),
    "min_age": ("late-link", "young objects are not kept"),
    "recheck": ("parts", "nothing is read again before deleting"),
    "wait": ("parts", "an object uploaded in parts is deleted as soon as the re-check does not find it"),
    "lease": ("restore", "no lease is taken or asked for"),
    "every_token": ("come-back", "staging is read once, by the branch records that were read before"),
    "young_commits": (
        "leave-twice",
        "a commit during the reading of staging counts only if a branch leads to it",
    ),
    "heads": ("come-back", "heads seen while staging was read do not count"),
}
"""Each rule, a scene with a loss without it, and the meaning."""


def without(rule: str) -> Rules:
    return replace(Rules(), **{rule: False})
