"""A schedule as text: a line for each move, the actor's name where the turn changes."""

from collections.abc import Iterator, Sequence

from tests.simulation.proposals.explorer import Event, Found
from tests.simulation.proposals.world import CLOCK


def lines(found: Found) -> Iterator[str]:
    """The schedule step by step, and the trouble at its end. Reads of the clock are left out."""
    yield from _lines(found.events)
    if found.later:
        yield "… and when all is quiet:"
        yield from _lines(found.later)
    yield f"⇒ {found.trouble.kind.upper()}: {found.trouble.text}"


def _lines(events: Sequence[Event]) -> Iterator[str]:
    width = max(len(event.actor) for event in events)
    last = ""
    for event in events:
        if event.where == CLOCK and event.actor != "clock" and not event.outcome:
            continue
        answer = f": {event.answer}" if event.answer else ""
        outcome = f"  [{event.outcome}]" if event.outcome and event.where else ""
        name = "" if event.actor == last else event.actor
        yield f"{name:<{width}}  {event.text}{answer}{outcome}"
        last = event.actor
