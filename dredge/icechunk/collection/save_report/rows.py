"""The table of a report: what became of the objects of each kind, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dredge.icechunk.collection.kinds import NAMES
from dredge.runs.report import ReportRow

_SWEPT = {
    "deleted": "nothing reached it",
    "missing": "was gone already",
    "failed": "could not be deleted",
    "kept": "came into use, was brought back or written again meanwhile, is held by the store, or could not be copied",
}


def rows_of_kind(
    kind: str, figures: Mapping[str, int], dry_run: bool, released: int = 0
) -> Iterator[ReportRow]:
    """Give the rows of a kind.

    Args:
        kind: of objects.
        figures: of the listing and the sweep, without the kind's name; empty when it was not listed.
        dry_run: nothing was to be deleted.
        released: objects that nothing needs, and that are kept with all that they name because they are young.
    """
    if not figures:
        return
    yield from _kept(kind, figures, released)
    candidates = figures.get("candidates_objects", 0)
    swept = {outcome: figures.get(f"{outcome}_objects", 0) for outcome in _SWEPT}
    if candidates and not any(swept.values()):
        verdict = "would be deleted" if dry_run else "candidate"
        yield _row(kind, verdict, "nothing reaches it", candidates, figures["candidates_bytes"])
    for outcome, why in _SWEPT.items():
        if swept[outcome]:
            yield _row(kind, outcome, why, swept[outcome], figures[f"{outcome}_bytes"])


def _kept(kind: str, figures: Mapping[str, int], released: int) -> Iterator[ReportRow]:
    young, spared = figures.get("young_objects", 0), figures.get("spared_objects", 0)
    foreign = figures.get("foreign", 0)
    pinned = figures.get("pinned_objects", 0)
    waiting = figures.get("waiting_objects", 0)
    live = figures.get("listed_objects", 0) - figures.get("found_objects", 0)
    live -= young + foreign + spared + pinned + released
    if live:
        yield _row(kind, "kept", "needed", live, None if released else _live_bytes(figures))
    if released:
        yield _row(kind, "kept", "released, younger than the cutoff", released, None)
    if young:
        yield _row(kind, "kept", "younger than the cutoff", young, figures["young_bytes"])
    if waiting:
        why = "nothing reaches it; it waits for another run"
        yield _row(kind, "waiting", why, waiting, figures["waiting_bytes"])
    if spared:
        why = "nothing reaches it, but none of its kind is to be deleted"
        yield _row(kind, "kept", why, spared, figures["spared_bytes"])
    if pinned:
        yield _row(
            kind,
            "kept",
            "brought back and kept for now, or a virtual chunk lies in it",
            pinned,
            figures["pinned_bytes"],
        )
    if foreign:
        yield _row(kind, "kept", "not a name that Icechunk gives", foreign, None)


def _live_bytes(figures: Mapping[str, int]) -> int | None:
    """Bytes of live objects; None where nobody counted, because foreign objects lie among them."""
    if figures.get("foreign", 0) or "listed_bytes" not in figures:
        return None
    others = sum(figures.get(f"{what}_bytes", 0) for what in ("found", "young", "spared", "pinned"))
    return figures["listed_bytes"] - others


def _row(kind: str, verdict: str, why: str, objects: int, size_bytes: int | None) -> ReportRow:
    return ReportRow(NAMES[kind], verdict, why, objects, size_bytes)
