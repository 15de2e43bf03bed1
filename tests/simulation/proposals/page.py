"""docs/why-offline.md: its schedules and figures are made from a run of the explorer.

python -m tests.simulation.proposals.page        writes the page anew; a test fails while it differs
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.simulation.proposals import claims_offline, claims_online
from tests.simulation.proposals.catalogue import Chapter, Claim, result_of
from tests.simulation.proposals.claims_first import COUNTER, STAGING_IN_STORE
from tests.simulation.proposals.claims_second import TOKEN_STATES, TRACKING
from tests.simulation.proposals.claims_third import NO_COPIES
from tests.simulation.proposals.drawing import mermaid
from tests.simulation.proposals.explorer import Explored, Found, Scene, explore
from tests.simulation.proposals.offline import Rules
from tests.simulation.proposals.online import Design

PAGE = Path(__file__).resolve().parents[3] / "docs" / "why-offline.md"
CHAPTERS = (STAGING_IN_STORE, COUNTER, TRACKING, TOKEN_STATES, NO_COPIES)
PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    """A table of a page."""
    every = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in every)


def chapter_part(chapter: Chapter) -> str:
    """A design: its claims, and the shortest schedule of each that goes wrong."""
    parts = [chapter.idea, table(("Item", "Claim", "Found", "What it says"), map(_row, chapter.claims))]
    for claim in chapter.claims:
        if claim.scene is not None and (found := result_of(claim).found) is not None:
            moves = f"{claim.worst}, {len(found.events)} moves"
            title = f"<details><summary>{claim.item}, {claim.name}: {moves}</summary>"
            parts.append(f"{title}\n\n{mermaid(found)}\n\n</details>")
    return "\n\n".join(parts)


def _row(claim: Claim) -> tuple[str, str, str, str]:
    return claim.item, claim.says, _found(claim), claim.means


def _found(claim: Claim) -> str:
    if claim.scene is None:
        return "not about order"
    explored = result_of(claim).explored
    looked = f"{explored.states:,} states, {explored.schedules:,} orders"
    found = [f"**{kind}** after {len(explored.found[kind].events)} moves" for kind in sorted(explored.found)]
    return f"{', '.join(found) or 'nothing'} ({looked})"


def summary_part() -> str:
    """One line a design."""
    return table(
        ("", "Design", "Losses", "Leaks", "Stuck", "Holds", "States", "Shortest loss"),
        map(_summary, CHAPTERS),
    )


def _summary(chapter: Chapter) -> list[str]:
    results = [result_of(claim) for claim in chapter.claims if claim.scene is not None]
    counts = [
        str(sum(kind in result.explored.found for result in results)) for kind in ("loss", "leak", "stuck")
    ]
    clean = sum(not result.explored.found for result in results)
    states = sum(result.explored.states for result in results)
    shortest = min(
        len(result.explored.found["loss"].events) for result in results if "loss" in result.explored.found
    )
    return [chapter.number, chapter.title, *counts, str(clean), f"{states:,}", f"{shortest} moves"]


@cache
def explored[T](make: Callable[[T], Scene], rules: T, until: str | None = None) -> Explored:
    """Explore a scene under some rules, once a process."""
    return explore(make(rules), until)


def weakened(rule: str) -> Found:
    """The loss without a rule of the offline protocol."""
    scene = claims_offline.WEAKENED[rule][0]
    return explored(claims_offline.scene_named(scene)[0], claims_offline.without(rule), "loss").found["loss"]


def weakened_online(rule: str) -> Found:
    """What goes wrong without a rule of the online design."""
    scene, kind, _ = claims_online.WEAKENED[rule]
    return explored(claims_online.SCENES[scene][0], claims_online.without(rule), kind).found[kind]


def passes[T](scenes: dict[str, tuple[Callable[[T], Scene], str]], rules: T) -> str:
    """Scenes that a protocol passes, with what was looked at."""
    rows = ((text, *_looked(explored(make, rules))) for make, text in scenes.values())
    return table(("Beside each other", "States", "Orders", "Found"), iter(rows))


def _looked(explored: Explored) -> tuple[str, str, str]:
    return f"{explored.states:,}", f"{explored.schedules:,}", ", ".join(sorted(explored.found)) or "nothing"


def offline_part() -> str:
    """Our protocol, whole."""
    return passes(claims_offline.SCENES, Rules())


def weakened_part() -> str:
    """Our protocol without each of its rules, and the shortest schedules."""
    found = {rule: weakened(rule) for rule in claims_offline.WEAKENED}
    rows = []
    for rule, (scene, text) in claims_offline.WEAKENED.items():
        beside = claims_offline.scene_named(scene)[1]
        rows.append((f"`{rule}`", text, beside, f"**loss** after {len(found[rule].events)} moves"))
    parts = [table(("Left out", "That is", "Beside", "Found"), iter(rows))]
    for rule in found:
        title = f"<details><summary>without {rule}: loss, {len(found[rule].events)} moves</summary>"
        parts.append(f"{title}\n\n{mermaid(found[rule])}\n\n</details>")
    return "\n\n".join(parts)


def online_part() -> str:
    """The online design that holds, and without each of its rules."""
    rows = []
    for rule, (scene, kind, text) in claims_online.WEAKENED.items():
        moves = len(weakened_online(rule).events)
        rows.append((text, claims_online.SCENES[scene][1], f"**{kind}** after {moves} moves"))
    without = table(("Without", "Beside each other", "Found"), iter(rows))
    return passes(claims_online.SCENES, Design()) + "\n\n" + without


PARTS: dict[str, Callable[[], str]] = {
    "summary": summary_part,
    **{f"design_{chapter.number}": lambda chapter=chapter: chapter_part(chapter) for chapter in CHAPTERS},  # type: ignore[misc]
    "offline": offline_part,
    "weakened": weakened_part,
    "online": online_part,
}


def page(text: str) -> str:
    """A page with all its parts made anew."""
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[3]}", text)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE, file=sys.stderr)


if __name__ == "__main__":
    main()
