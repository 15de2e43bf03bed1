"""Lakes growing run by run, and the removals of Dredge's own files."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from dredge.gc.run import Run
from dredge.gc.save_report.clean_up import ROOT
from dredge.storage import DeleteOutcome
from tests.support.gc import World
from tests.support.memory_store import MemoryDeleter
from tests.support.stand_ins import standing_in


@contextmanager
def removing(
    before: Callable[[int, Sequence[str]], None] = lambda _number, _keys: None,
    answer: Callable[[str], str | None] = lambda _key: None,
) -> Iterator[list[str]]:
    """Record removals of own files; may raise before each group, or fail single keys."""
    seen: list[str] = []
    groups = 0

    def delete(
        honest: Callable[..., list[DeleteOutcome]], deleter: MemoryDeleter, keys: Sequence[str], *gate: Any
    ) -> list[DeleteOutcome]:
        nonlocal groups
        if "/_lakefs/" not in deleter.uri:
            return honest(deleter, keys, *gate)
        groups += 1
        before(groups, keys)
        failed = {key: code for key in keys if (code := answer(key)) is not None}
        rest = [key for key in keys if key not in failed]
        seen.extend(rest)
        done = {outcome.key: outcome for outcome in honest(deleter, rest, *gate)}
        return [done[key] if key in done else DeleteOutcome(key, "failed", failed[key]) for key in keys]

    with standing_in(MemoryDeleter.delete, delete):
        yield seen


def below(world: World, prefix: str) -> set[str]:
    return set(world.lake.keys(f"{ROOT}/{prefix}"))


def folders(world: World) -> set[str]:
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
