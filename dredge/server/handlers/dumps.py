"""Dumps of refs and their restoration, at once or as tasks."""

from __future__ import annotations

from starlette.responses import Response

from dredge.graveler.catalog import RefsDump
from dredge.server import answers, shapes
from dredge.server.calls import Call


def dump_refs(call: Call) -> Response:
    """PUT …/refs/dump."""
    return answers.answer(201, shapes.refs_dump(call.catalog.dumps.dump_refs(call.repository)))


def restore_refs(call: Call) -> Response:
    """PUT …/refs/restore: 200 without a body."""
    call.catalog.dumps.restore_refs(call.repository, _dump(call), force=call.flag("force"))
    return answers.empty(200)


def dump_submit(call: Call) -> Response:
    """POST …/dump."""
    return answers.answer(202, {"id": call.catalog.dumps.dump_submit(call.repository)})


def dump_status(call: Call) -> Response:
    """GET …/dump."""
    task = call.catalog.dumps.dump_status(call.repository, call.query.required("task_id"))
    return answers.answer(200, shapes.refs_task(task))


def restore_submit(call: Call) -> Response:
    """POST …/restore."""
    task_id = call.catalog.dumps.restore_submit(call.repository, _dump(call), force=call.flag("force"))
    return answers.answer(202, {"id": task_id})


def restore_status(call: Call) -> Response:
    """GET …/restore."""
    task = call.catalog.dumps.restore_status(call.repository, call.query.required("task_id"))
    return answers.answer(200, shapes.refs_task(task))


def _dump(call: Call) -> RefsDump:
    body = call.body
    return RefsDump(body["commits_meta_range_id"], body["tags_meta_range_id"], body["branches_meta_range_id"])
