"""What a person is shown who has to decide: subject and body, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.gc.approve.by_branch import ByBranch, by_branch
from dredge.gc.approve.largest import Largest, find_largest
from dredge.gc.approve.markdown import code, plain
from dredge.gc.approve.records import Asked
from dredge.gc.approve.step import find_question
from dredge.gc.check_limits import CheckLimitsOutput
from dredge.gc.run import Run, make_lease
from dredge.gc.subtract import EXAMPLES_MAX, REASONS
from dredge.runs.words import size_text
from dredge.undo.ways import WORDS

_LARGEST = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked.

    Attributes:
        subject: one line.
        body: the details, in Markdown.
        approvers: ids of those who may answer; () is everybody.
        answer_until: the store's time from which on it is a no.
        wait: how long that is from now on.
        report: URI of the report's page.
        digest: of what is asked; an answer goes with it.
    """

    subject: str
    body: str
    approvers: tuple[str, ...]
    answer_until: datetime
    wait: timedelta
    report: str
    digest: str


def make_question(run: Run, report: str) -> Question:
    """Word what a run asks, and keep the repository for it as long as it may wait.

    While the lease is held, no other run asks about the same objects, and none moves on the state that this one builds
    on. That is for order only: what makes a late sweep safe is its re-check and the greatest age of a mark.

    Args:
        run: this run, of which `approve` said that it awaits approval.
        report: URI of the page of its report so far.

    Raises:
        RefusedError: it asks nothing.
        LeaseHeldError: another run has taken over.
    """
    asked = find_question(run)
    request = asked.request
    wait = max(request.answer_until - run.store_now(), timedelta(seconds=1))
    lease_seconds = run.plan.config.safety.lease_seconds + wait.total_seconds()
    make_lease(run.state, lease_seconds).renew(run.plan.lease, take_back=False)
    return Question(
        subject=_subject(run, asked),
        body="\n".join(_lines(run, asked, report)),
        approvers=request.approvers,
        answer_until=request.answer_until,
        wait=wait,
        report=report,
        digest=asked.digest,
    )


def _subject(run: Run, asked: Asked) -> str:
    request = asked.request
    return (
        f"Delete {request.objects:,} objects ({size_text(request.size_bytes)}) of lakeFS repository"
        f" {plain(run.plan.repository)}?"
    )


def _lines(run: Run, asked: Asked, report: str) -> Iterator[str]:
    plan, request = run.plan, asked.request
    summary = run.folder.read_summary(CheckLimitsOutput.STEP)
    if summary is None:  # somebody does it again, and will ask again
        return
    guards = CheckLimitsOutput.of(summary)
    yield f"{plain(request.why)}\n"
    yield f"- Repository {code(plan.repository)}, a run in mode {plan.mode} ({plain(plan.why_mode)})"
    yield f"- To delete: {request.objects:,} objects, {size_text(request.size_bytes)}{_share(guards)}"
    yield f"- To take it back (undo is {plan.undo.way}): {WORDS[plan.undo.way]}; it costs {guards.undo['text']}"
    yield f"- Without an answer by {request.answer_until:%Y-%m-%d %H:%M} UTC nothing is deleted"
    yield f"- Report: {code(report)}"
    yield f"- Run {code(plan.run_id)}, digest of the candidates {code(request.candidates[:16])}"
    yield from _kinds("What would be deleted", guards.would_delete, words=REASONS)
    yield from _largest(find_largest(run, guards, _LARGEST))
    yield from _by_branch(by_branch(run, guards))
    yield from _kinds("What is held back and stays", guards.held, words={})


def _share(guards: CheckLimitsOutput) -> str:
    share = next((item["figure"] for item in guards.findings if item["rule"] == "max_percent"), None)
    return "" if share is None else f", {share:,} percent of the repository's objects"


def _kinds(title: str, found: list[dict[str, Any]], words: Mapping[str, str]) -> Iterator[str]:
    kinds = [item for item in found if item["objects"]]
    if not kinds:
        return
    yield f"\n### {title}\n"
    for item in kinds:
        why = item.get("why") or words.get(item["reason"], item["reason"])
        yield f"- {item['objects']:,} objects, {size_text(item['bytes'])}: {plain(why)}"
        for example in item["examples"][:EXAMPLES_MAX]:
            yield f"    - {_example(example)}"


def _example(example: Mapping[str, Any]) -> str:
    text = code(example["address"])
    return f"{text}: {code(example['path'])} on {code(example['branch'])}" if "path" in example else text


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
