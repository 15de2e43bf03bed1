"""Lakes growing run by run, and the removals of Dredge's own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dredge.gc.run import Run
from dredge.gc.save_report.own_files import ROOT
from dredge.runs.cleanup import OwnFilesDeleter
from dredge.storage import DeleteOutcome
from tests.support.gc import World


@contextmanager
def removing(
    before: Callable[[int, Sequence[str]], None] = lambda _number, _keys: None,
    answer: Callable[[str], str | None] = lambda _key: None,
) -> Iterator[list[str]]:
    """Record removals of own files; may raise before each group, or fail single keys."""
    seen: list[str] = []
    honest = OwnFilesDeleter.delete
    groups = 0

    def delete(self: OwnFilesDeleter, keys: Sequence[str]) -> list[DeleteOutcome]:
        nonlocal groups
        groups += 1
        before(groups, keys)
        failed = {key: code for key in keys if (code := answer(key)) is not None}
        rest = [key for key in keys if key not in failed]
        seen.extend(rest)
        done = {outcome.key: outcome for outcome in honest(self, rest)}
        return [done[key] if key in done else DeleteOutcome(key, "failed", failed[key]) for key in keys]

    OwnFilesDeleter.delete = delete  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        OwnFilesDeleter.delete = honest  # type: ignore[method-assign]


def below(world: World, prefix: str) -> set[str]:
    """Own files below a prefix."""
    return set(world.lake.keys(f"{ROOT}/{prefix}"))


def folders(world: World) -> set[str]:
    """Ids of the runs with remaining files."""
    return {key.split("/")[4] for key in below(world, "unified/")}


def grown(world: World, number: int) -> None:
    """Add a few objects of every kind."""
    world.upload(f"a{number}", b"%d" % number)
    world.lake.commit()
    world.orphan(f"data/orphan-{number}")
    world.age(hours=30)


def run(world: World, **settings: Any) -> Run:
    context = world.plan(**settings)
    world.run(context)
    return context
