"""What a report says of the mode of a run: what it could not see, and what runs before it had missed."""

from __future__ import annotations

from dredge.errors import DredgeError
from dredge.icechunk.collection.list_candidates import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.runs.rendering import duration_text, size_text
from dredge.runs.versions import OPTIMIZED

UNSEEN = (
    "chunks that no manifest names: written by sessions that never committed, or by commits that failed early"
)


def facts_of_mode(run: Run, listed: ListCandidatesOutput | None) -> list[tuple[str, str]]:
    """Give the lines of a report about the mode of a run.

    Args:
        run: the run.
        listed: what it found; None when it did not come so far.
    """
    plan = run.plan
    facts = [("Mode", f"{plan.mode}: {plan.why_mode}" if plan.why_mode else plan.mode)]
    if plan.mode == OPTIMIZED:
        facts.append(("Not looked at", f"{UNSEEN}. Only a clean run finds them{_last_clean(run)}"))
    if plan.inventory is not None:
        begun = plan.inventory.created_at
        when = "of an unknown time" if begun is None else f"begun {begun:%Y-%m-%d %H:%M} UTC"
        facts.append(
            ("Chunks from", f"{plan.inventory.uri}, {when}; what is younger waits for the next clean run")
        )
    drift = None if listed is None else listed.drift
    if drift is not None:
        text = f"nothing, in {drift['runs']:,} optimized runs"
        if drift["objects"]:
            text = (
                f"{drift['objects']:,} chunks, {size_text(drift['bytes'])}, such as {drift['samples'][0]}: no manifest"
                " in the store names them, nor did one that an optimized run has counted"
            )
        facts.append(("Missed by optimized runs", text))
    return facts


def _last_clean(run: Run) -> str:
    try:
        if run.base is None:
            return ""
        state = run.base.state
    except DredgeError:
        return ""
    age = duration_text(run.plan.created_at - state.clean_at)
    return f"; the last one was {age} before this run ({state.clean_run_id})"
