"""Where most of what would be deleted lies: the largest folders of uploads, and the branches whose old commits go."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from dredge.gc.check_limits import HOLD_COLUMNS, CheckLimitsOutput, Holds
from dredge.gc.insight.base_run import read_history
from dredge.gc.list_committed import ListCommittedOutput
from dredge.gc.retention.lines import lines_of
from dredge.gc.run import Run
from dredge.gc.subtract import SubtractOutput
from dredge.lakefs import Rules
from dredge.runs.payload import from_json

_FOLDER = r"^(?P<folder>.*/)"


@dataclass(slots=True)
class Amount:
    """Some objects.

    Attributes:
        objects: how many.
        size_bytes: their sizes together.
    """

    objects: int = 0
    size_bytes: int = 0


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
        amount = found.setdefault(group["folder"], Amount())
        amount.objects += group["size_count"]
        amount.size_bytes += group["size_sum"]


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
