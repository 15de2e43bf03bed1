"""Bugs of the collector: real ones (A, B), or made possible by lakeFS (docs/lakefs-behaviour.md)."""

from __future__ import annotations

from functools import partial

from tests.mutations.breakages.breakage import Breakage
from tests.mutations.edits import Always, Drop, Keep, Put
from tests.simulation.bug import KnownBug
from tests.simulation.gc.focusing import on
from tests.simulation.gc.settings import YES

bug = partial(KnownBug, "gc")
_MULTI = {"flush_rows": (1,), "file_bytes": (1, 400)}
"""Pages of a scan have one file each, with few rows."""

OWN = (
    Breakage("the folder of a run goes with the copies in it", "dredge.undo.pins", "find_old_folders",
             Put("BoolOp", 2, False, "values.1")),
    Breakage("B7: without its index a run ends with a KeyError", "dredge.gc.check_limits.places", "_jobs",
             Put("IfExp", "name", False)),
    Breakage("B8: an object that cannot be looked at ends the run", "dredge.gc.subtract.earlier_runs",
             "_stat", Drop("Try", 1, "handlers.1")),
    Breakage("L22: hidden branches are passed over", "dredge.lakefs.client", "LakeFSClient.branches",
             Put("Call", "_pages", {"show_hidden": "false"}, "args.2")),
    Breakage("L37: what a store did not confirm is deleted", "dredge.runs.ledger", "outcome_rows",
             Put("Attribute", "outcome", "deleted")),
    Breakage("L42: a 404 for a full commit id is believed", "dredge.lakefs.client", "LakeFSClient.commit",
             Put("If", "len", True)),
    Breakage("L49: two documents in a 400 are no result", "dredge.lakefs.prepare", "_sync_result",
             Put("If", 3, False)),
    Breakage("L50: a server without the asynchronous call cannot be collected", "dredge.lakefs.prepare",
             "prepare_commits", Put("If", "message", True)),
    Breakage("L51: rules without branches are a list", "dredge.lakefs.client", "LakeFSClient.rules",
             Drop("BoolOp", 1, "values.1")),
    Breakage("L52: ends of branches are not looked at", "dredge.gc.mark_uncommitted.proof", "_Prover._tells",
             Drop("Assign", 5)),
    Breakage("L54: what a cache has kept is an answer", "dredge.lakefs.transport", "Response.is_lakefs",
             Put("BoolOp", 1, False, "values.1")),
    Breakage("A4: a 404 is a 404, whoever sends it, 2", "dredge.lakefs.transport", "Response.is_lakefs",
             Always(True)),
    Breakage("A4: a 404 is a 404, whoever sends it, 3", "dredge.lakefs.client", "LakeFSClient._get",
             Put("If", 2, False)),
    Breakage("A5: an orphaned earlier try writes the result, 1", "dredge.runs.folder",
             "RunFolder.read_summary", Put("BoolOp", 1, False, "values.1")),
    Breakage("A5: an orphaned earlier try writes the result, 2", "dredge.runs.tries", "StepTry.check",
             Put("If", "newest", False)),
    Breakage("A5: an orphaned earlier try writes the result, 3", "dredge.runs.tries", "StepTry.replace",
             Drop("Expr", "check")),
    Breakage("A6: the minimum age is the time for linking, 1", "dredge.gc.planning", "compare_server",
             Put("If", "abs", False)),
    Breakage("A6: the minimum age is the time for linking, 4", "dredge.gc.config", "",
             Keep("BinOp", 1, "left")),
    Breakage("L2: no rules means that nothing is committed, 1", "dredge.gc.list_committed.active",
             "_from_server", Put("Call", "Found", False, "args.4")),
    Breakage("L2: no rules means that nothing is committed, 2", "dredge.gc.list_committed.active",
             "_from_records", Put("Call", "Found", False, "args.4")),
    Breakage("L3: only the last page's files count, 1", "dredge.gc.mark_uncommitted.staged", "_note_page",
             Drop("Expr", "add")),
    Breakage("L3: only the last page's files count, 2", "dredge.gc.mark_uncommitted.staged", "_file_keys",
             Keep("BinOp", 1, "left")),
    Breakage("the guard lease_held is not asked, 2", "dredge.runs.lease", "Lease.hold", Put("If", 1, False)),
    Breakage("the guard lease_held is not asked, 3", "dredge.gc.bulk_delete.step", "_hold",
             Drop("Expr", "renew")),
)  # fmt: skip
"""Breakages outside the lists of tests/mutations."""
BUGS = (
    bug("A4: a 404 is a 404, whoever sends it", 11, "live", on("not_there"),
        breaks=("A4: a 404 is a 404, whoever sends it, 2", "A4: a 404 is a 404, whoever sends it, 3")),
    bug("A5: an orphaned earlier try writes the result", 13, "overtaken",
        on("beside_its_retry", delete_keys=(1,)),
        breaks=("A5: an orphaned earlier try writes the result, 1",
                "A5: an orphaned earlier try writes the result, 2",
                "A5: an orphaned earlier try writes the result, 3", "results need not belong together",
                "results may be read in any order")),
    bug("A6: the minimum age is the time for linking", 1, "young", on("late_link", off=(140.0,)),
        breaks=("A6: the minimum age is the time for linking, 1",
                "A6: the minimum age is the time for linking, 4")),
    bug("B7: without its index a run ends with a KeyError", 3, "defect", on("index_is_lost")),
    bug("B8: an object that cannot be looked at ends the run", 0, "held",
        on("known_and_young", rest=("optimized",))),
    bug("L2: no rules means that nothing is committed", 0, "live", on("much_is_staged", rules=(None,)),
        breaks=("L2: no rules means that nothing is committed, 1",
                "L2: no rules means that nothing is committed, 2")),
    bug("L3: only the last page's files count", 2, "live",
        on("much_is_staged", canary_branches=(0,), **_MULTI),
        breaks=("L3: only the last page's files count, 1", "L3: only the last page's files count, 2",
                "a missing file of staged addresses is accepted",
                "a page without a file says that nothing was staged",
                "L52: ends of branches are not looked at")),
    bug("L4: a page without a file says that nothing was staged, and ends of branches are not looked at", 2,
        "live", on("rows_are_lost", canary_branches=(0,)),
        breaks=("a page without a file says that nothing was staged",
                "L52: ends of branches are not looked at")),
    bug("L22: hidden branches are passed over", 2, "live", on("only_hidden")),
    bug("L23: of staging records only the current token's are read", 0, "live",
        on("long_commit", read_kv=(YES,)), breaks=("sealed tokens are left out of the records",)),
    bug("L37: what a store did not confirm is deleted", 3, "figures", on("some_stay")),
    bug("L42: a 404 for a full commit id is believed", 6, "held", on("up_again_though_poisoned")),
    bug("L49: two documents in a 400 are no result", 0, "peace"),
    bug("L50: a server without the asynchronous call cannot be collected", 0, "peace"),
    bug("L51: rules without branches are a list", 0, "defect"),
    bug("L52: ends of branches are not looked at", 2, "live", on("rows_are_lost", canary_branches=(0,)),
        breaks=("L52: ends of branches are not looked at",
                "a page without a file says that nothing was staged")),
    bug("L54: what a cache has kept is an answer", 10, "live", on("kept_by_a_cache")),
    bug("L55: servers' clocks are not compared", 5, "clocks", on("clocks_apart"),
        breaks=("A6: the minimum age is the time for linking, 1",)),
)  # fmt: skip
