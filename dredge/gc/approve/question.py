"""What a person is shown about a collection of a lakeFS repository who has to decide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dredge.approve.question import Question, code, first_lines, kinds, plain, word_question
from dredge.approve.records import Asked
from dredge.gc.approve import find_question
from dredge.gc.approve.by_branch import ByBranch, by_branch
from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds
from dredge.gc.insight.addresses import Amount
from dredge.gc.insight.base_run import read_history
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention.lines import lines_of
from dredge.gc.run import Run
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.lakefs import Rules
from dredge.runs.payload import from_json
from dredge.runs.words import size_text

_FOLDER = r"^(?P<folder>.*/)"


@dataclass(slots=True)
class Largest:
    """Where most of it lies.

    Attributes:
        folders: by name, the largest first.
        num_folders: how many there are.
        branches: expired commits by branch on whose line they are, most first.
    """

    folders: dict[str, Amount] = field(default_factory=dict)
    num_folders: int = 0
    branches: dict[str, int] = field(default_factory=dict)


def find_largest(run: Run, guards: CheckLimitsOutput, count: int) -> Largest:
    """Find where most of what would be deleted lies. Candidates are read one file after the other.

    Args:
        run: this run.
        guards: what they hold back.
        count: folders and branches to name.

    Raises:
        FormatError: a file is not as it was written.
    """
    folders = _folders(run, guards)
    first = sorted(folders, key=lambda name: (-folders[name].size_bytes, name))[:count]
    branches = _branches(run)
    return Largest({name: folders[name] for name in first}, len(folders), dict(branches.most_common(count)))


def _folders(run: Run, guards: CheckLimitsOutput) -> dict[str, Amount]:
    summary = run.folder.read_summary(SubtractOutput.STEP)
    holds = Holds.of(run.folder, guards.hold_files)
    found: dict[str, Amount] = {}
    for part in SubtractOutput.of(summary).candidates if summary is not None else ():
        rows = run.folder.read_part(part, ["address", *HOLD_COLUMNS])
        _add(found, rows.filter(holds.codes_of(rows).is_null()))
    return found


def _add(found: dict[str, Amount], rows: pa.Table) -> None:
    folders = pc.struct_field(pc.extract_regex(rows["address"], _FOLDER), "folder")
    table = pa.table({"folder": folders, "size": rows["size"]})
    for group in table.group_by("folder").aggregate([("size", "count"), ("size", "sum")]).to_pylist():
        found.setdefault(group["folder"], Amount()).add(group["size_count"], group["size_sum"])


def _branches(run: Run) -> Counter[str]:
    """Expired commits by branch, of the branches that the history names for each."""
    summary = run.folder.read_summary(ListCommittedOutput.STEP)
    if summary is None:
        return Counter()
    committed = ListCommittedOutput.of(summary)
    if committed.rules is None or not committed.counts.get("expired_commits", 0):
        return Counter()
    history = read_history(run.folder, committed)
    rules = from_json(Rules, committed.rules)
    lines = lines_of(history.graph, history.branches, rules, run.plan.created_at)
    return Counter(
        branch for item, line in lines.items() if item not in history.active for branch in line.branches
    )


_LARGEST = 10


def make_question(run: Run, report: str) -> Question:
    """Word what a run asks, and keep the repository for it as long as it may wait.

    Args:
        run: this run, of which `approve` said that it awaits approval.
        report: URI of the page of its report so far.

    Raises:
        RefusedError: it asks nothing.
        LeaseHeldError: another run has taken over.
    """
    asked = find_question(run)
    repository = f"lakeFS repository {run.plan.repository}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    summary = run.folder.read_summary(CheckLimitsOutput.STEP)
    if summary is None:  # somebody does it again, and will ask again
        return
    guards = CheckLimitsOutput.of(summary)
    yield from first_lines(run, asked, run.plan.repository, guards, report)
    yield from kinds("What would be deleted", guards.would_delete, words=REASONS)
    yield from _largest(find_largest(run, guards, _LARGEST))
    yield from _by_branch(by_branch(run, guards))
    yield from kinds("What is held back and stays", guards.held, words={})


def _largest(largest: Largest) -> Iterator[str]:
    if largest.folders:
        yield f"\n### Largest of {largest.num_folders:,} folders in the store\n"
        for name, amount in largest.folders.items():
            yield f"- {code(name)}: {amount.objects:,} objects, {size_text(amount.size_bytes)}"
    if largest.branches:
        yield "\n### Branches with the most expired commits\n"
        yield from (f"- {code(name)}: {count:,}" for name, count in largest.branches.items())


def _by_branch(found: ByBranch) -> Iterator[str]:
    """Say whose it was, as far as that is known, and what is not."""
    yield "\n### By the branch whose commits named it last\n"
    named = sorted(found.named.items(), key=lambda item: (-item[1].size_bytes, item[0]))
    for names, amount in named[:_LARGEST]:
        whose = ", ".join(code(name) for name in names) or "a branch that is gone"
        yield f"- {whose}: {amount.objects:,} objects, {size_text(amount.size_bytes)}"
    if others := len(named[_LARGEST:]):
        yield f"- and {others:,} others"
    if found.unknown.objects:
        unknown = found.unknown
        yield (
            f"- nobody can tell: {unknown.objects:,} objects, {size_text(unknown.size_bytes)}. No expired commit that"
            " was looked at names them; which branch had what was only staged is not recorded"
        )
    yield from (f"- not looked at: {plain(text)}" for text in found.unread)
