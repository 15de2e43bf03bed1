"""What it would take online, beside everything that made the five designs fail; and without each of its rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from tests.simulation.proposals import lake, online
from tests.simulation.proposals.explorer import Scene
from tests.simulation.proposals.lake import losses
from tests.simulation.proposals.online import Design
from tests.simulation.proposals.world import Actor, World, after

RULES = tuple(field.name for field in fields(Design))
LATER = online.INTENT_HOURS + 5


def _scene(design: Design, world: World, lost: int = 1, hours: int = 0, **actors: Actor) -> Scene:
    """Two beside each other, of which one may die and one answer get lost; then the list is worked off."""
    return Scene(
        world,
        {name.replace("_", " "): actor for name, actor in actors.items()},
        losses,
        later=(
            ("worker", lambda: online.work(design, LATER)),
            ("worker again", lambda: online.work(design, LATER)),
        ),
        at_rest=lake.leaks,
        crashes=1,
        lost_answers=lost,
        hours=hours,
    )


def _one() -> World:
    return online.world(objects=("data/a",), staged={"t1/x": lake.entry("data/a")})


def _two() -> World:
    return online.world(
        objects=("data/a",), staged={"t1/x": lake.entry("data/a"), "t1/y": lake.entry("data/a")}
    )


def link_delete(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        Linker=lambda: online.link(design, "y", "data/a"),
        Deleter=lambda: online.delete(design, "x"),
    )


def delete_delete(design: Design) -> Scene:
    return _scene(
        design,
        _two(),
        Deleter_1=lambda: online.delete(design, "x"),
        Deleter_2=lambda: online.delete(design, "x"),
    )


def delete_commit(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        lost=0,
        Deleter=lambda: online.delete(design, "x"),
        Committer=lambda: online.commit("c1", "t2"),
    )


def upload_upload(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        hours=1,
        Writer_1=lambda: online.upload(design, "x", "data/b"),
        Writer_2=lambda: online.upload(design, "x", "data/c"),
    )


def upload_reset(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        Writer=lambda: online.upload(design, "x", "data/b"),
        Resetter=lambda: after(lambda: online.reset("t2"), lambda: online.work(design)),
    )


def link_reset(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        Linker=lambda: online.link(design, "y", "data/a"),
        Resetter=lambda: after(lambda: online.reset("t2"), lambda: online.work(design)),
    )


def commit_reset(design: Design) -> Scene:
    return _scene(
        design,
        _one(),
        lost=0,
        Committer=lambda: online.commit("c1", "t2"),
        Resetter=lambda: after(lambda: online.reset("t3"), lambda: online.work(design)),
    )


SCENES: dict[str, tuple[Callable[[Design], Scene], str]] = {
    "link-delete": (link_delete, "a link beside the deletion of the other entry"),
    "delete-delete": (delete_delete, "the same deletion twice"),
    "delete-commit": (delete_commit, "a deletion beside a commit"),
    "upload-upload": (upload_upload, "two uploads over one entry"),
    "upload-reset": (upload_reset, "an upload beside a reset and its clean-up"),
    "link-reset": (link_reset, "a link beside a reset and its clean-up"),
    "commit-reset": (commit_reset, "a commit beside a reset and its clean-up"),
}
"""What happens at the same time."""

WEAKENED = {
    "same_token": ("delete-commit", "loss", "the token is read before, not in the transaction"),
    "todo": ("upload-reset", "leak", "what has to be deleted is put down nowhere"),
    "dead": ("link-reset", "loss", "an address without a holder may get one"),
    "intent": ("upload-upload", "leak", "an upload says nothing before it writes"),
}
"""Each rule, the scene in which leaving it out goes wrong, how, and what that means."""


def without(rule: str) -> Design:
    """All rules but one."""
    return replace(Design(), **{rule: False})
