"""The text of a request for approval, in Markdown: subject and body. Each collector adds its own sections.

Names from a lake are chosen by uploaders, and are read by the person deciding about a deletion: they must not look like
other text, be a link, or count as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dredge.approve.output import GuardsOutput
from dredge.approve.records import Asked
from dredge.approve.step import keep_lease
from dredge.runs.rendering import size_text
from dredge.runs.run import PlannedRun
from dredge.undo.ways import WORDS

_MARKS = frozenset("`<>&|\\")
_LENGTH_MAX = 200


def plain(text: str) -> str:
    """A name as text: unprintable characters and the syntax of Markdown and HTML are escaped."""
    shown = "".join(_shown(character) for character in text[:_LENGTH_MAX])
    return f"{shown}…" if len(text) > _LENGTH_MAX else shown


def code(text: str) -> str:
    """A name as a code span, without Markdown links or emphasis."""
    return f"`{plain(text)}`"


def _shown(character: str) -> str:
    if character.isprintable() and character not in _MARKS:
        return character
    number = ord(character)
    return (
        f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65_536 else f"\\U{number:08x}"
    )


# Examples of each kind.
EXAMPLES_MAX = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A request to a person.

    Attributes:
        approvers: ids of the approvers; () is everybody.
        answer_until: the store's time; later answers count as a rejection.
        digest: of the request; an answer carries it.
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
    """Format the request of a run, and keep the lease for its wait.

    Args:
        lines: of the body; read after the lease is renewed.
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
    """Format the reason, the subject and the consequences of a request."""
    plan, request = run.plan, asked.request
    yield f"{plain(request.why)}\n"
    yield f"- Repository {code(repository)}, a run in mode {plan.mode} ({plain(plan.why_mode)})"
    yield f"- To delete: {request.objects:,} objects, {size_text(request.size_bytes)}{_share(guards)}"
    yield f"- Undo ({plan.undo.way}): {WORDS[plan.undo.way]}; cost: {guards.undo.text}"
    yield f"- Without an answer by {request.answer_until:%Y-%m-%d %H:%M} UTC nothing is deleted"
    yield f"- Report: {code(report)}"
    yield f"- Run {code(plan.run_id)}, digest of the candidates {code(request.candidates[:16])}"


def _share(guards: GuardsOutput) -> str:
    share = next((item["figure"] for item in guards.findings if item["rule"] == "max_percent"), None)
    return "" if share is None else f", {share:,} percent of the repository's objects"


def kinds(title: str, found: Iterable[Mapping[str, Any]], words: Mapping[str, str]) -> Iterator[str]:
    """Format objects by kind, with examples; empty without objects."""
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
    """Format a request and its answer for a report."""
    if said["state"] == "waiting":
        return f"awaited until {said['answer_until'][:16].replace('T', ' ')} UTC. {said['why']}"
    at = f"{said['at'][:19].replace('T', ' ')} UTC"
    if not said["by"]:
        return f"not approved by {at}. {said['why']}"
    return f"{said['state']} by {said['by']} ({said['through']}), {at}. {said['why']}"


def what_to_do(outcome: str, command: str) -> str:
    """The advice about an approval for the reader of a report; "" for other outcomes."""
    if outcome == "awaiting_approval":
        return (
            "Read the candidates below. Then approve or reject them: in Airflow under Required Actions, for any run"
            f" with `{command} approve` or `{command} reject` and the run folder. Continue a local run with"
            f" `{command} resume`."
        )
    if outcome == "rejected":
        return "No action is needed. A new run makes a new mark, and asks again if necessary."
    return ""
