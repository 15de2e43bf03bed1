"""The call prepare_commits, and the responses of real servers.

    async  202                                        poll the task
           404 or 500 "invalid API endpoint"          server without this endpoint: use the sync call
    task   completed with a result                    done
           completed, "get gc rules: not found"       no rules
           completed with another error               refused
           404, the task record is gone               refused
           not completed by the deadline              unavailable
    sync   201                                        done
           404 "get gc rules: not found"              no rules
           another 404                                refused
           400 with two JSON documents                done: the second is the result (pre-signing is off)
    any    501                                        refused: the server does not offer the call
           connection dropped, or a proxy's response   refused: a branch head without its commit record ends the
                                                      server's process, and another request would end it again
           a proxy's 404                              unavailable: the request did not reach a server

Source: lakeFS pkg/api/controller.go, pkg/catalog/catalog.go, pkg/graveler/retention.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dredge.errors import DredgeError, FormatError, RefusedError, UnavailableError
from dredge.lakefs.model import PreparedCommits
from dredge.lakefs.transport import (
    NO_SUCH_CALL,
    READ_SECONDS,
    DroppedError,
    ForeignResponseError,
    Response,
    Transport,
    refuse,
)
from dredge.runs.clock import running_seconds

_PATH = "/repositories/{repository}/gc/prepare_commits"
_NO_RULES = "get gc rules: not found"
_POLL_SECONDS = (0.1, 5.0)


def prepare_commits(
    transport: Transport,
    repository: str,
    deadline_seconds: float,
    sleep: Callable[[float], None] = time.sleep,
) -> PreparedCommits | None:
    """Have the server compute the active commits and write them to a file. Returns the location of the file; None if
    the repository has no rules, so every commit is active. Raises RefusedError: no response, or no result; it never
    means that there are no commits."""
    names = {"repository": repository}
    try:
        started = _ask(transport, f"{_PATH}/async", names, ("id",))
        if started.status == 202:
            return _poll(transport, repository, started.json()["id"], deadline_seconds, sleep)
        if started.message != NO_SUCH_CALL:
            raise _no_result(started, f"prepare_commits of {repository}")
        response = _ask(transport, _PATH, names, (), deadline_seconds)
    except DroppedError as error:
        raise RefusedError(
            f"prepare_commits of {repository}: {error}. A branch head without a commit record can crash lakeFS like"
            " this, so the request is not repeated. Nothing was deleted. Read the lakeFS log; repair a broken branch"
            " with a hard reset to an intact ref."
        ) from None
    return _sync_result(response, repository)


def _ask(
    transport: Transport,
    path: str,
    names: Mapping[str, str],
    members: Sequence[str],
    read_seconds: float = READ_SECONDS,
) -> Response:
    """Send the request once, on a new connection."""
    try:
        return transport.call(
            "POST",
            path,
            names=names,
            retry=False,
            own_connection=True,
            read_seconds=read_seconds,
            members=members,
        )
    except ForeignResponseError as error:
        if error.status == 404:
            raise
        raise DroppedError(str(error)) from None


def _sync_result(response: Response, repository: str) -> PreparedCommits | None:
    what = f"prepare_commits of {repository}"
    if response.status == 201:
        return _result(response.json(), what)
    if response.status == 404 and response.message == _NO_RULES:
        return None
    if response.status == 400:
        for document in response.documents:
            if document.get("gc_commits_location"):
                return _result(document, what)
    raise _no_result(response, what)


def _no_result(response: Response, what: str) -> DredgeError:
    if response.status != 404:
        return refuse(response, what)
    return RefusedError(
        f"{what}: lakeFS answered 404 {response.message!r}, which is neither a result nor 'no rules', so the active"
        " commits are unknown. Nothing was deleted. Check that the endpoint is the lakeFS server of this repository."
    )


def _poll(
    transport: Transport, repository: str, task: str, deadline_seconds: float, sleep: Callable[[float], None]
) -> PreparedCommits | None:
    what = f"prepare_commits of {repository} (task {task})"
    deadline = running_seconds() + deadline_seconds
    pause, longest = _POLL_SECONDS
    while True:
        try:
            response = transport.call(
                "GET",
                f"{_PATH}/status",
                names={"repository": repository},
                query={"id": task},
                members=("completed",),
            )
        except UnavailableError as error:
            raise DroppedError(f"while lakeFS computed the active commits: {error}") from None
        if response.status == 404:
            raise RefusedError(
                f"{what}: lakeFS no longer has the task ({response.message!r}), so there is no result. Nothing was"
                " deleted. Start a new run."
            )
        if response.status != 200:
            raise refuse(response, what)
        status = response.json()
        if status.get("completed"):
            return _task_result(status, what)
        if running_seconds() >= deadline:
            raise UnavailableError(
                f"{what}: not finished after {deadline_seconds:.0f} s. If lakeFS restarted, the task never finishes."
                " Nothing was deleted. Read the lakeFS log, then try again."
            )
        sleep(pause)
        pause = min(longest, pause * 2)


def _task_result(status: Mapping[str, Any], what: str) -> PreparedCommits | None:
    error = status.get("error")
    if error:
        text = str(error.get("message", ""))
        if text == _NO_RULES:
            return None
        raise RefusedError(f"{what}: lakeFS failed with {text!r}. Nothing was deleted. Read the lakeFS log.")
    if not status.get("result"):
        raise FormatError(f"{what}: lakeFS returned neither result nor error. Nothing was deleted.")
    return _result(status["result"], what)


def _result(value: Mapping[str, Any], what: str) -> PreparedCommits:
    location = value.get("gc_commits_location")
    if not location:
        raise FormatError(f"{what}: the response has no file. Nothing was deleted. Read the lakeFS log.")
    return PreparedCommits(str(value.get("run_id", "")), location)
