"""What a hook is told about an event: the JSON that webhooks and DAGs receive.

Source: lakeFS pkg/actions/event.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from dredge.graveler.actions.hooks import Run
from dredge.graveler.actions.text import rfc3339
from dredge.graveler.catalog.events import Event


def information(event: Event, run: Run, now: datetime) -> dict[str, Any]:
    """The fields in order; those without a value are left out."""
    commit = event.commit
    required = {
        "event_type": str(event.type),
        "event_time": rfc3339(now),
        "action_name": run.action,
        "hook_id": run.hook,
        "repository_id": event.repository.name,
    }
    optional = {
        "branch_id": event.branch,
        "source_ref": event.source,
        "tag_id": event.tag,
        "commit_id": event.commit_id,
        "commit_message": "" if commit is None else commit.message,
        "committer": "" if commit is None else commit.committer,
        "commit_metadata": {} if commit is None else dict(sorted(commit.metadata.items())),
        "merge_source": event.merge_source,
    }
    return required | {name: value for name, value in optional.items() if value}
