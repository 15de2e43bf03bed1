"""What a person is shown about a collection of a lakeFS repository who has to decide."""

from __future__ import annotations

from collections.abc import Iterator

from dredge.approve.markdown import code, plain
from dredge.approve.question import Question, first_lines, kinds, word_question
from dredge.approve.records import Asked
from dredge.gc.approve.by_branch import ByBranch, by_branch
from dredge.gc.approve.largest import Largest, find_largest
from dredge.gc.approve.step import find_question
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run
from dredge.gc.subtract import REASONS
from dredge.runs.words import size_text

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
