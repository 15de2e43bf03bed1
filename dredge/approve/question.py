"""What a person is shown who has to decide: subject and body, in Markdown. Each collector says what only it knows.

Names from a lake as Markdown. Whoever uploads chooses them, and a person who decides about deleting reads them: they
must not look like anything else, be a link, or be taken for HTML by whatever shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.approve.output import GuardsOutput
from dredge.approve.records import Asked
from dredge.approve.step import keep_lease
from dredge.runs.run import PlannedRun
from dredge.runs.words import size_text
from dredge.undo.ways import WORDS

_MARKS = frozenset("`<>&|\\")
_LENGTH_MAX = 200


def plain(text: str) -> str:
    """A name as text: what is no printable character, and what Markdown or HTML could take for its own, is escaped."""
    shown = "".join(_shown(character) for character in text[:_LENGTH_MAX])
    return f"{shown}…" if len(text) > _LENGTH_MAX else shown


def code(text: str) -> str:
    """A name as a span of code, in which Markdown finds no links and no emphasis."""
    return f"`{plain(text)}`"


def _shown(character: str) -> str:
    if character.isprintable() and character not in _MARKS:
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"
    )


EXAMPLES_MAX = 10
"""Examples of each kind."""


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


def word_question(
    run: PlannedRun[Any], asked: Asked, repository: str, lines: Iterable[str], report: str
) -> Question:
    """Word what a run asks, and keep the repository for it as long as it may wait.

    Args:
        run: this run, of which `approve` said that it awaits approval.
        asked: what it asks.
        repository: whose objects would go, such as "lakeFS repository lake"; goes behind "of".
        lines: of the body; read when the repository is kept.
        report: URI of the page of its report so far.

    Raises:
        LeaseHeldError: another run has taken over.
    """
    request = asked.request
    wait = max(request.answer_until - run.store_now(), timedelta(seconds=1))
    keep_lease(run, request.answer_until + timedelta(seconds=run.plan.config.safety.lease_seconds))
    size = size_text(request.size_bytes)
    return Question(
        subject=f"Delete {request.objects:,} objects ({size}) of {plain(repository)}?",
        body="\n".join(lines),
        approvers=request.approvers,
        answer_until=request.answer_until,
        wait=wait,
        report=report,
        digest=asked.digest,
    )


def first_lines(
    run: PlannedRun[Any], asked: Asked, repository: str, guards: GuardsOutput, report: str
) -> Iterator[str]:
    """Word why somebody is asked, about what, and what comes of it.

    Args:
        run: this run.
        asked: what it asks.
        repository: its name or URI.
        guards: what they found.
        report: URI of the page of its report so far.
    """
    plan, request = run.plan, asked.request
    yield f"{plain(request.why)}\n"
    yield f"- Repository {code(repository)}, a run in mode {plan.mode} ({plain(plan.why_mode)})"
    yield f"- To delete: {request.objects:,} objects, {size_text(request.size_bytes)}{_share(guards)}"
    yield f"- To take it back (undo is {plan.undo.way}): {WORDS[plan.undo.way]}; it costs {guards.undo.text}"
    yield f"- Without an answer by {request.answer_until:%Y-%m-%d %H:%M} UTC nothing is deleted"
    yield f"- Report: {code(report)}"
    yield f"- Run {code(plan.run_id)}, digest of the candidates {code(request.candidates[:16])}"


def _share(guards: GuardsOutput) -> str:
    share = next((item["figure"] for item in guards.findings if item["rule"] == "max_percent"), None)
    return "" if share is None else f", {share:,} percent of the repository's objects"


def kinds(title: str, found: Iterable[Mapping[str, Any]], words: Mapping[str, str]) -> Iterator[str]:
    """Word objects by kind, with examples; nothing where there are none.

    Args:
        title: of the section.
        found: kinds: `reason` or `why`, `objects`, `bytes`, `examples`.
        words: what a reason means.
    """
    shown = [item for item in found if item["objects"]]
    if not shown:
        return
    yield f"\n### {title}\n"
    for item in shown:
        why = item.get("why") or words.get(item["reason"], item["reason"])
        yield f"- {item['objects']:,} objects, {size_text(item['bytes'])}: {plain(why)}"
        for example in item["examples"][:EXAMPLES_MAX]:
            yield f"    - {_example(example)}"


def _example(example: Mapping[str, Any]) -> str:
    text = code(example["address"])
    return f"{text}: {code(example['path'])} on {code(example['branch'])}" if "path" in example else text


def approval_text(said: Mapping[str, Any]) -> str:
    """Word what a person was asked and said.

    Args:
        said: as `ApproveOutput.approval` gives it.
    """
    if said["state"] == "waiting":
        return f"awaited until {said['answer_until'][:16].replace('T', ' ')} UTC. {said['why']}"
    at = f"{said['at'][:19].replace('T', ' ')} UTC"
    if not said["by"]:
        return f"nobody had approved it by {at}. {said['why']}"
    return f"{said['state']} by {said['by']} ({said['through']}), {at}. {said['why']}"


def what_to_do(outcome: str, command: str) -> str:
    """Say what the reader of a report should do about an approval; "" for other outcomes.

    Args:
        outcome: of the run.
        command: of the collector, such as "dredge gc".
    """
    if outcome == "awaiting_approval":
        return (
            "Read below what would go. Then approve or reject it: under Required Actions where the run is Airflow's,"
            f" with `{command} approve` or `{command} reject` and the folder of the run everywhere. A local run then"
            f" goes on with `{command} resume`."
        )
    if outcome == "rejected":
        return "Nothing. A new run looks at everything again, and asks again where it has to."
    return ""
