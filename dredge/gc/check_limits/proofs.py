"""Guards that every input is complete, and that the results belong together."""

from __future__ import annotations

from dredge.gc.check_limits import codes
from dredge.gc.check_limits.check import Check, must
from dredge.gc.check_limits.output import CheckLimitsOutput
from dredge.runs.limits import Finding
from dredge.runs.steps import breaks, links_of, plan_digest

_SHOWN_MAX = 10


def listing_complete(check: Check) -> Finding:
    """As many rows were listed, written and compared."""
    rows = sum(part.rows for part in check.listing.listed)
    counted = check.listing.counts["old_objects"]
    whole = rows == counted == check.candidates.counts["listed_objects"]
    return must("listing_complete", whole, rows, counted, "listed rows were written and compared")


def staging_complete(check: Check) -> Finding:
    """Every staged row that the server counted is among ours."""
    counts = check.staged.counts
    copied = sum(part.rows for part in check.staged.addresses)
    where = f"{counts['pages']} pages in {counts['scans']} scans"
    if not counts["scans"]:
        where = f"{counts['kv_tokens']:,} staging tokens of the key-value store"
    return must(
        "staging_complete",
        copied >= counts["rows"] and counts["branches"] > 0,
        copied,
        counts["rows"],
        f"staged addresses were read from {where}",
    )


def order(check: Check) -> Finding:
    """Listing, staging and commits were read one after the other, and compared as they stand now.

    A step reads its inputs before it begins, so a result that names the digest of another one was made after it.
    Clocks prove nothing here: each step may have run on another machine.
    """
    links = links_of(CheckLimitsOutput.INPUTS)
    wrong = list(breaks(links, check.record.inputs, plan_digest(check.run.folder)))
    text = "results were made from each other in the order of the safety argument: listing, staging, commits"
    if wrong:
        text = f"results do not belong together: {'; '.join(wrong)}"
    return must("order", not wrong, len(links) if not wrong else "not all", None, text)


def live_not_empty(check: Check) -> Finding:
    """Something is live where something is committed or staged."""
    committed, staged_rows = check.committed.counts, check.staged.counts["rows"]
    live = committed["live_addresses"]
    inside = committed["range_rows"] - committed["outside_rows"]
    return must(
        "live_not_empty",
        live > 0 or (inside == 0 and staged_rows == 0),
        live,
        None,
        f"live addresses come from {inside:,} committed and {staged_rows:,} staged rows",
    )


def committed_not_empty(check: Check) -> Finding:
    """Commits with content name ranges."""
    counts = check.committed.counts
    # The metarange without any range is a real one: a commit that deleted the last object has it.
    suspicious = counts["metaranges"] > 1 and counts["ranges"] == 0
    return must(
        "committed_not_empty",
        not suspicious,
        counts["ranges"],
        None,
        f"ranges are named by {counts['metaranges']:,} metaranges of {counts['active_commits']:,} active commits",
    )


def nothing_nested(check: Check) -> Finding:
    """Says in which folders below `data/` other repositories lie or have left their files; these are kept."""
    kept = check.candidates.nested
    if not kept:
        return Finding("nothing_nested", "passed", 0, None, "no other repository lies below data/")
    text = (
        f"everything below {', '.join(kept[:_SHOWN_MAX])}{' and others' if len(kept) > _SHOWN_MAX else ''} is kept:"
        " another repository lies there, or was deleted and has left its files (lakeFS leaves the objects of deleted"
        " repositories where they are). Move the data of one that is used to a namespace of its own; remove what a"
        " deleted one has left from the object store"
    )
    check.record.warn(text)
    return Finding("nothing_nested", "passed", len(kept), None, text)


def identical_content(check: Check) -> Finding:
    """Says what the proofs about objects of equal size came to; they hold objects, never the run."""
    cleared = len(check.tally.cleared)
    text = (
        f"{cleared:,} of {check.proof.objects:,} candidates as long as an object in a branch head were proved to be"
        f" read by no branch; {check.tally.objects_of(codes.SERVED):,} are read and stay,"
        f" {check.tally.objects_of(*codes.UNSETTLED):,} are held back"
    )
    return Finding("identical_content", "passed", cleared, None, text)
