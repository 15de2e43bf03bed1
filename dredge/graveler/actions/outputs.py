"""What runs leave in the storage namespace: a log for each hook that ran, and a manifest.

    _lakefs/actions/log/<run>/<hook run>.log
    _lakefs/actions/log/<run>/run.manifest        the run and its hooks as JSON

Source: lakeFS pkg/actions/hook_output_writer.go, service.go (RunManifest).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dredge.errors import NotFoundError
from dredge.graveler.actions.results import HookResult, RunResult
from dredge.graveler.actions.text import rfc3339, to_json
from dredge.graveler.catalog.model import Namespaces
from dredge.graveler.errors import DataNotFoundError
from dredge.graveler.refs.records import Repository

FOLDER = "_lakefs/actions/log"


class Outputs:
    """Logs and manifests of all repositories.

    Args:
        namespaces: where they are.
    """

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces

    def write_log(self, repository: Repository, run_id: str, hook_run: str, text: str) -> None:
        """Write a hook's log."""
        content = text.encode("utf-8", "replace")
        self._namespaces.of(repository).objects.put(_log(run_id, hook_run), content)

    def read_log(self, repository: Repository, run_id: str, hook_run: str) -> bytes:
        """Read a hook's log.

        Raises:
            DataNotFoundError: 410, it has been removed from the store.
        """
        try:
            return self._namespaces.of(repository).objects.get(_log(run_id, hook_run))
        except NotFoundError:
            raise DataNotFoundError from None

    def write_manifest(self, repository: Repository, run: RunResult, hooks: Sequence[HookResult]) -> None:
        """Write a run's manifest, or write it again."""
        manifest = {"run": _run(run), "hooks": [_hook(run, each) for each in hooks]}
        content = to_json(manifest).encode("utf-8", "replace")
        self._namespaces.of(repository).objects.put(f"{FOLDER}/{run.id}/run.manifest", content)


def _log(run_id: str, hook_run: str) -> str:
    return f"{FOLDER}/{run_id}/{hook_run}.log"


def _run(run: RunResult) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "branch_id": run.branch,
        "source_ref": run.source,
        "event_type": run.event,
        **({"commit_id": run.commit_id} if run.commit_id else {}),
        "start_time": rfc3339(run.start, fraction=True),
        "end_time": rfc3339(run.end, fraction=True),
        "passed": run.passed,
    }


def _hook(run: RunResult, hook: HookResult) -> dict[str, Any]:
    return {
        "run_id": run.id,
        "hook_run_id": hook.id,
        "hook_id": hook.hook,
        "action_name": hook.action,
        "start_time": rfc3339(hook.start, fraction=True),
        "end_time": rfc3339(hook.end, fraction=True),
        "passed": hook.passed,
    }
