"""docs/why-offline.md: its schedules and figures are made from a run of the explorer.

python -m tests.simulation.proposals.page        writes the page again; a test fails while it differs
"""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from tests.simulation.proposals import claims_offline, design1, design2, design3, design4, design5
from tests.simulation.proposals.catalogue import Chapter, Claim, result_of
from tests.simulation.proposals.drawing import lines
from tests.simulation.proposals.explorer import Explored, Found, Scene, explore
from tests.simulation.proposals.offline import Rules

PAGE = Path(__file__).resolve().parents[3] / "docs" / "why-offline.md"
CHAPTERS = tuple(design.CHAPTER for design in (design1, design2, design3, design4, design5))
PART = re.compile(r"(<!-- made: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    every = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in every)


def chapter_part(chapter: Chapter) -> str:
    """A design: its claims, and the shortest failing schedule of each."""
    parts = [chapter.idea, table(("Item", "Claim", "Found", "Meaning"), map(_row, chapter.claims))]
    for claim in chapter.claims:
        if claim.worst:
            parts.append(_schedule(f"{claim.item}, {claim.name}", result_of(claim).found[claim.worst]))
    return "\n\n".join(parts)


def _schedule(title: str, found: Found) -> str:
    text = "\n".join(lines(found))
    return f"<details><summary>{title}: {found.trouble.kind}</summary>\n\n```text\n{text}\n```\n\n</details>"


def _row(claim: Claim) -> tuple[str, str, str, str]:
    return claim.item, claim.says, _found(claim), claim.means


def _found(claim: Claim) -> str:
    explored = result_of(claim)
    found = [f"**{kind}** after {len(found.events)} moves" for kind, found in explored.found.items()]
    return f"{', '.join(found) or 'nothing'} ({explored.schedules:,} orders)"


@cache
def explored(make: Callable[[Rules], Scene], rules: Rules, until: str | None = None) -> Explored:
    """Explore a scene under some rules, once per process."""
    return explore(make(rules), until)


def weakened(rule: str) -> Found:
    """The loss without a rule of the offline protocol."""
    scene = claims_offline.WEAKENED[rule][0]
    return explored(claims_offline.scene_named(scene)[0], claims_offline.without(rule), "loss").found["loss"]


def offline_part() -> str:
    """Our protocol, whole: its passed scenes, with the number of visited states."""
    scenes = claims_offline.SCENES.items()
    rows = ((f"`{name}`", text, *_looked(explored(make, Rules()))) for name, (make, text) in scenes)
    return table(("Beside", "That is", "States", "Orders", "Found"), rows)


def _looked(explored: Explored) -> tuple[str, str, str]:
    return f"{explored.states:,}", f"{explored.schedules:,}", ", ".join(sorted(explored.found)) or "nothing"


def weakened_part() -> str:
    """Our protocol without each of its rules, and the shortest schedules."""
    found = {rule: weakened(rule) for rule in claims_offline.WEAKENED}
    rows = []
    for rule, (scene, text) in claims_offline.WEAKENED.items():
        rows.append((f"`{rule}`", text, f"`{scene}`", f"**loss** after {len(found[rule].events)} moves"))
    parts = [table(("Left out", "That is", "Beside", "Found"), iter(rows))]
    parts += [_schedule(f"without {rule}", found[rule]) for rule in found]
    return "\n\n".join(parts)


PARTS: dict[str, Callable[[], str]] = {
    **{f"design_{chapter.number}": lambda chapter=chapter: chapter_part(chapter) for chapter in CHAPTERS},  # type: ignore[misc]
    "offline": offline_part,
    "weakened": weakened_part,
}


def page(text: str) -> str:
    return PART.sub(lambda part: f"{part[1]}\n{PARTS[part[2]]()}\n\n{part[3]}", text)


def main() -> None:
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(PAGE, file=sys.stderr)


if __name__ == "__main__":
    main()
