"""Commits, and what brings them from one line to another: merge, revert, cherry-pick, comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from dredge.graveler.catalog import Commit, CommitOverrides
from dredge.graveler.errors import (
    CommitNotFoundError,
    MergeConflictError,
    MissingError,
    RepositoryNotFoundError,
)
from dredge.server import answers, shapes
from dredge.server.calls import Call
from dredge.server.failures import RequestError


def commit(call: Call) -> Response:
    """POST …/branches/{branch}/commits."""
    made = call.catalog.commits.commit(
        call.repository,
        call.branch,
        committer=call.committer,
        message=call.body["message"],
        metadata=call.body.get("metadata"),
        date=call.moment("date"),
        source_metarange=call.query.optional("source_metarange"),
        allow_empty=call.flag("allow_empty"),
        force=call.flag("force"),
    )
    return answers.answer(201, shapes.commit(made))


def get_commit(call: Call) -> Response:
    """GET …/commits/{commit_id}; any ref expression; one that leads nowhere is a missing commit."""
    try:
        found = call.catalog.commits.get_commit(call.repository, call.path["commit_id"])
    except RepositoryNotFoundError:
        raise
    except MissingError:
        raise CommitNotFoundError from None
    return answers.answer(200, shapes.commit(found))


def create_commit_record(call: Call) -> Response:
    """POST …/commits."""
    body = call.body
    created = call.moment("creation_date")
    if created is None:
        raise RequestError.body('property "creation_date" is missing')
    record = Commit(
        id=body["commit_id"],
        committer=body["committer"],
        message=body["message"],
        creation_date=created,
        metarange_id=body["metarange_id"],
        metadata=body.get("metadata") or {},
        parents=tuple(body["parents"]),
        version=body["version"],
        generation=body["generation"],
    )
    call.catalog.commits.create_commit_record(call.repository, record, force=call.flag("force"))
    return answers.empty()


def log_commits(call: Call) -> Response:
    """GET …/refs/{ref}/commits."""
    query = call.query
    found = call.catalog.commits.log(
        call.repository,
        call.path["ref"],
        objects=query.many("objects"),
        prefixes=query.many("prefixes"),
        limit=query.flag("limit"),
        first_parent=query.flag("first_parent"),
        since=_since(query.optional("since")),
        stop_at=query.optional("stop_at"),
        after=query.text("after"),
        amount=query.amount,
    )
    results = [shapes.commit(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def merge(call: Call) -> Response:
    """POST …/refs/{source}/merge/{branch}; a conflict has a body of its own."""
    body = call.body
    try:
        made = call.catalog.merges.merge(
            call.repository,
            call.path["source"],
            call.branch,
            committer=call.committer,
            message=body.get("message") or "",
            metadata=body.get("metadata"),
            strategy=body.get("strategy") or "",
            squash=call.flag("squash_merge"),
            allow_empty=call.flag("allow_empty"),
            force=call.flag("force"),
        )
    except MergeConflictError:
        return answers.answer(409, {"reference": ""})
    return answers.answer(200, {"reference": made.id})


def find_merge_base(call: Call) -> Response:
    """GET …/refs/{source}/merge/{branch}."""
    found = call.catalog.merges.find_merge_base(call.repository, call.path["source"], call.branch)
    return answers.answer(200, shapes.merge_base(found))


def revert(call: Call) -> Response:
    """POST …/branches/{branch}/revert."""
    call.catalog.merges.revert(
        call.repository,
        call.branch,
        call.body["ref"],
        committer=call.committer,
        parent_number=call.body["parent_number"],
        overrides=_overrides(call.body),
        allow_empty=call.flag("allow_empty"),
        force=call.flag("force"),
    )
    return answers.empty()


def cherry_pick(call: Call) -> Response:
    """POST …/branches/{branch}/cherry-pick."""
    made = call.catalog.merges.cherry_pick(
        call.repository,
        call.branch,
        call.body["ref"],
        committer=call.committer,
        parent_number=call.body.get("parent_number"),
        overrides=_overrides(call.body),
        force=call.flag("force"),
    )
    return answers.answer(201, shapes.commit(made))


def diff_refs(call: Call) -> Response:
    """GET …/refs/{left}/diff/{right}."""
    kind = call.query.text("type", "three_dot")
    if kind not in ("two_dot", "three_dot"):
        raise RequestError.parameter("type", "query", "value is not one of the allowed values")
    found = call.catalog.merges.diff_refs(
        call.repository,
        call.path["left"],
        call.path["right"],
        two_dot=kind == "two_dot",
        delimiter=call.query.text("delimiter"),
        **call.query.paging,
    )
    results = [shapes.diff(each) for each in found.results]
    return answers.page(results, has_more=found.has_more, next_offset=found.next_offset)


def _overrides(body: Mapping[str, Any]) -> CommitOverrides | None:
    given = body.get("commit_overrides")
    return None if given is None else CommitOverrides(given.get("message"), given.get("metadata"))


def _since(value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise RequestError.parameter("since", "query", f"value {value}: an invalid date-time") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
