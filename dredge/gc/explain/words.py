"""An answer for people."""

from __future__ import annotations

from collections.abc import Iterator

from dredge.gc.explain.answer import VERDICTS, Answer, Judged, NamedBy, StagedBy, UnnamedBy
from dredge.runs.words import size_text

_COMMITS_MAX = 10


def answer_lines(answer: Answer) -> Iterator[str]:
    """Word an answer: the verdict first, then every reason, then what was not looked at."""
    target = answer.target
    yield f"{target.address} of {target.repository}: {VERDICTS[answer.verdict]}"
    if answer.size_bytes is not None and answer.last_modified is not None:
        yield f"  {size_text(answer.size_bytes)}, last modified {answer.last_modified:%Y-%m-%d %H:%M:%S} UTC"
    for staged in answer.staged:
        yield f"staged    {_staged(staged)}"
    active = [commit for commit in answer.commits if commit.active]
    yield from (f"commit    {_commit(commit)}" for commit in active[:_COMMITS_MAX])
    if len(active) > _COMMITS_MAX:
        yield f"          and {len(active) - _COMMITS_MAX:,} older commits"
    yield from (f"metarange {_unnamed(item)}" for item in answer.unnamed)
    for pin in answer.pins:
        until = f"{pin.until:%Y-%m-%d %H:%M} UTC"
        yield f"pinned    brought back after run {pin.run_id} deleted it, until {until}: {pin.reason}"
    if answer.young_until is not None:
        yield f"young     no run judges it before {answer.young_until:%Y-%m-%d %H:%M} UTC"
    if answer.judged is not None:
        yield f"run       {_judged(answer.judged)}"
    expired = [commit for commit in answer.commits if not commit.active]
    if expired:
        newest = expired[0]
        yield f"expired   {_commit(newest)}; {len(expired):,} such commits, which keep nothing any more"
    for text in answer.not_looked_at:
        yield f"not looked at: {text}"


def _staged(staged: StagedBy) -> str:
    if not staged.branch:
        return f"on a branch that is not known, when a run looked at {staged.as_of:%Y-%m-%d %H:%M} UTC"
    text = f"on {staged.branch} as {staged.path}" + (f", token {staged.token}" if staged.token else "")
    return f"{text}, sealed by a commit: the branch may show something else" if staged.sealed else text


def _commit(commit: NamedBy) -> str:
    date = "date not known" if commit.created_at is None else f"{commit.created_at:%Y-%m-%d}"
    text = f"{commit.commit_id[:12]} ({date})"
    if commit.paths:
        text += f" as {', '.join(commit.paths)}"
    return "; ".join([text, *_keepers(commit)])


def _unnamed(item: UnnamedBy) -> str:
    text = f"{item.metarange_id[:12]} (written {item.written_at:%Y-%m-%d})"
    if item.paths:
        text += f" as {', '.join(item.paths)}"
    until = "the next complete run" if item.until is None else f"{item.until:%Y-%m-%d %H:%M} UTC"
    return f"{text}; no active commit names it: runs count it as one until {until}"


def _keepers(commit: NamedBy) -> Iterator[str]:
    if commit.heads:
        others = f" and {len(commit.heads) - 3:,} more" if len(commit.heads) > 3 else ""
        yield f"head of {', '.join(commit.heads[:3])}{others}"
    elif commit.branches:
        more = commit.num_branches - len(commit.branches)
        yield f"on {', '.join(commit.branches)}" + (f" and {more:,} more" if more > 0 else "")
    if commit.tags:
        yield f"tag {', '.join(commit.tags)}"
    for name in commit.policies:
        yield f"policy: {name}"
    if commit.rule:
        yield commit.rule + ("" if commit.until is None else f": until {commit.until:%Y-%m-%d %H:%M} UTC")
    elif commit.until is not None and not commit.active:
        yield f"expired {commit.until:%Y-%m-%d}"


def _judged(judged: Judged) -> str:
    when = f"{judged.run_id} ({judged.at:%Y-%m-%d %H:%M} UTC)"
    if judged.outcome == "deleted":
        text = f"{when} deleted it as {judged.reason}: {judged.why}"
        if judged.approved_by:
            text += f"; approved by {judged.approved_by} ({judged.approved_at:%Y-%m-%d %H:%M} UTC)"
        if not judged.restorable:
            return text
        where = "below a delete marker" if judged.restorable == "versions" else "in the run's quarantine"
        text += f"; it is still {where}, and `dredge gc restore` brings it back"
        if judged.restorable_until is not None:
            text += f" at least until {judged.restorable_until:%Y-%m-%d}, unless it is purged before"
        return text
    if judged.outcome:
        return f"{when} left it ({judged.outcome}): {judged.why}"
    if judged.hold:
        return f"{when} holds it ({judged.hold}): {judged.why}"
    return f"{when} found it to be garbage ({judged.reason}): {judged.why}"
