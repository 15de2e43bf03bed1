"""`./run demo races`: how each rejected online design loses data, and why the offline rules exist."""

from collections.abc import Callable

from tests.simulation.proposals import page
from tests.simulation.proposals.catalogue import Chapter, result_of
from tests.simulation.proposals.claims_offline import SCENES, WEAKENED, scene_named
from tests.simulation.proposals.drawing import lines
from tests.simulation.proposals.offline import Rules

Say = Callable[[str], None]


def races_demo(say: Say) -> bool:
    """Show one loss of each design step by step, then the offline protocol with all rules, and without each
    rule.

    Args:
        say: prints a line.

    Returns:
        Whether every design lost something, the protocol nothing, and the protocol without a rule something.
    """
    say("Five designs that delete unused objects at once (docs/why-offline.md):")
    shown = [_show(chapter, say) for chapter in page.CHAPTERS]
    say("\nThe offline protocol, beside everything, in every order:")
    held = [_pass(name, say) for name in SCENES]
    say("\nWithout one of its rules:")
    lost = [_weaken(rule, say) for rule in WEAKENED]
    right = all(shown) and all(held) and all(lost)
    say("\nPASSED" if right else "\nFAILED")
    return right


def _show(chapter: Chapter, say: Say) -> bool:
    claim = next(claim for claim in chapter.claims if claim.worst == "loss")
    explored = result_of(claim)
    say(f"\n{chapter.number}. {chapter.title}")
    say(f"   {claim.item}: {claim.says}")
    say(f"   Of {explored.schedules:,} orders ({explored.states:,} states), the shortest failing order:")
    for line in lines(explored.found["loss"]):
        say(f"      {line}")
    say(f"   {claim.means}")
    return frozenset(explored.found) == claim.expects


def _pass(name: str, say: Say) -> bool:
    make, text = SCENES[name]
    explored = page.explored(make, Rules())
    found = ", ".join(explored.found) or "nothing lost, no garbage left"
    say(f"   {text}: {explored.schedules:,} orders, {found}")
    return not explored.found


def _weaken(rule: str, say: Say) -> bool:
    scene, text = WEAKENED[rule]
    found = page.weakened(rule)
    say(f"   {text}; beside it {scene_named(scene)[1]}: lost after {len(found.events)} moves")
    return True
