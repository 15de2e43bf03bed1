"""A schedule as a sequence diagram: mermaid for pages, lines for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.proposals.explorer import Event, Found
from tests.simulation.proposals.world import CLOCK, KV, STORE

_BRACKETS = str.maketrans({";": ",", "#": "⋕", "<": "‹", ">": "›"})


def mermaid(found: Found) -> str:
    """The schedule as a mermaid block, its trouble as the last note."""
    actors = list(
        dict.fromkeys(event.actor for event in found.events if event.where != CLOCK or event.actor != "clock")
    )
    lines = ["```mermaid", "sequenceDiagram"]
    lines += [f"    participant {_name(name)} as {name}" for name in [*actors, *_places(found)]]
    for event in found.events:
        lines += [f"    {line}" for line in _arrows(event)]
    whole = f"{_name(actors[0])},{_name(([*actors, *_places(found)])[-1])}"
    if found.later:
        names = ", ".join(dict.fromkeys(event.actor for event in found.later))
        lines.append(f"    Note over {whole}: then, alone: {names}")
    return "\n".join(
        [
            *lines,
            f"    Note over {whole}: {_safe(found.trouble.kind.upper())}: {_safe(found.trouble.text)}",
            "```",
        ]
    )


def _places(found: Found) -> list[str]:
    used = {event.where for event in found.events}
    return [place for place in (KV, STORE) if place in used]


def _arrows(event: Event) -> Iterator[str]:
    actor = _name(event.actor)
    if event.where == CLOCK or not event.where:
        yield (
            f"Note over {actor}: {_safe(event.text)}"
            if event.actor != "clock"
            else f"Note over {_name(KV)}: {_safe(event.text)}"
        )
    else:
        answer = f" → {event.answer}" if event.answer else ""
        yield f"{actor}->>{_name(event.where)}: {_safe(event.text + answer)}"
    if event.outcome and event.where:
        yield f"Note over {actor}: {_safe(event.outcome)}"


def _name(text: str) -> str:
    return text.replace(" ", "_")


def _safe(text: str) -> str:
    return text.translate(_BRACKETS)


def lines(found: Found) -> Iterator[str]:
    """The schedule step by step, for the terminal."""
    yield from _numbered(found.events)
    if found.later:
        yield "      … and when all is quiet:"
        yield from _numbered(found.later, len(found.events) + 1)
    yield f"      ⇒ {found.trouble.kind.upper()}: {found.trouble.text}"


def _numbered(events: Iterable[Event], first: int = 1) -> Iterator[str]:
    events = list(events)
    width = max(len(event.actor) for event in events)
    for number, event in enumerate(events, first):
        answer = f"  → {event.answer}" if event.answer else ""
        outcome = f"  [{event.outcome}]" if event.outcome and event.where else ""
        yield f"  {number:>3} {event.actor:<{width}}  {event.text}{answer}{outcome}"
