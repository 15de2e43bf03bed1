"""The request for approval of a lakeFS collection: its largest folders and branches, and its text."""

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
from dredge.gc.retention.active import find_lines
from dredge.gc.run import Run
from dredge.gc.subtract import REASONS, SubtractOutput
from dredge.lakefs import Rules
from dredge.runs.payload import from_json
from dredge.runs.rendering import size_text

_FOLDER = r"^(?P<folder>.*/)"


@dataclass(slots=True)
class Largest:
    """The largest parts of the candidates.

    Attributes:
        folders: by name, the largest first.
        num_folders: the number of all folders.
        branches: expired commits by branch, the largest number first.
    """

    folders: dict[str, Amount] = field(default_factory=dict)
    num_folders: int = 0
    branches: dict[str, int] = field(default_factory=dict)


def find_largest(run: Run, guards: CheckLimitsOutput, count: int) -> Largest:
    """Find the largest folders and branches of the candidates. Candidates are read one file after the other.

    Args:
        count: limit of folders and branches.

    Raises:
        FormatError: a damaged file.
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
    summary = run.folder.read_summary(ListCommittedOutput.STEP)
    if summary is None:
        return Counter()
    committed = ListCommittedOutput.of(summary)
    if committed.rules is None or not committed.counts.get("expired_commits", 0):
        return Counter()
    history = read_history(run.folder, committed)
    rules = from_json(Rules, committed.rules)
    lines = find_lines(history.graph, history.branches, rules, run.plan.created_at)
    return Counter(
        branch for item, line in lines.items() if item not in history.active for branch in line.branches
    )


_LARGEST = 10


def make_question(run: Run, report: str) -> Question:
    """Format the request of a run, and keep the lease for its wait.

    Args:
        run: this run; `approve` awaits an answer.
        report: URI of the page of its report so far.

    Raises:
        RefusedError: no request.
        LeaseHeldError: another run has taken over.
    """
    asked = find_question(run)
    repository = f"lakeFS repository {run.plan.repository}"
    return word_question(run, asked, repository, _lines(run, asked, report), report)


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    summary = run.folder.read_summary(CheckLimitsOutput.STEP)
    if summary is None:  # the step is being repeated, and will ask again
        return
    guards = CheckLimitsOutput.of(summary)
    yield from first_lines(run, asked, run.plan.repository, guards, report)
    yield from kinds("What would be deleted", guards.would_delete, words=REASONS)
    yield from _largest(find_largest(run, guards, _LARGEST))
    yield from _by_branch(by_branch(run, guards))
    yield from kinds("Held, not deleted", guards.held, words={})


def _largest(largest: Largest) -> Iterator[str]:
    if largest.folders:
        yield f"\n### Largest of {largest.num_folders:,} folders in the store\n"
        for name, amount in largest.folders.items():
            yield f"- {code(name)}: {amount.objects:,} objects, {size_text(amount.size_bytes)}"
    if largest.branches:
        yield "\n### Branches with the most expired commits\n"
        yield from (f"- {code(name)}: {count:,}" for name, count in largest.branches.items())


def _by_branch(found: ByBranch) -> Iterator[str]:
    yield "\n### By the branch of the last commit with the object\n"
    named = sorted(found.named.items(), key=lambda item: (-item[1].size_bytes, item[0]))
    for names, amount in named[:_LARGEST]:
        whose = ", ".join(code(name) for name in names) or "a deleted branch"
        yield f"- {whose}: {amount.objects:,} objects, {size_text(amount.size_bytes)}"
    if others := len(named[_LARGEST:]):
        yield f"- and {others:,} others"
    if found.unknown.objects:
        unknown = found.unknown
        yield (
            f"- unknown: {unknown.objects:,} objects, {size_text(unknown.size_bytes)}. They are in none of the expired"
            " commits read; lakeFS does not record the branch of objects staged and never committed"
        )
    yield from (f"- not read: {plain(text)}" for text in found.unread)
