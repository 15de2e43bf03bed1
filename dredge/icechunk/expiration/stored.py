"""A plan as files beside the repository: for the report, and for the one who approves it.

<repository>/_dredge/expirations/<id>/plan.json  plan.txt  plan.html
"""

from __future__ import annotations

from datetime import datetime

from dredge.icechunk.expiration.page import plan_page
from dredge.icechunk.expiration.plan import ExpirationPlan
from dredge.icechunk.expiration.tree import draw_plan
from dredge.icechunk.maintenance import EXPIRATIONS, open_state
from dredge.storage import StorageOptions
from dredge.xid import new_descending_xid

PAGE = "plan.html"


def store_plan(uri: str, plan: ExpirationPlan, now: datetime, options: StorageOptions | None = None) -> str:
    """Write a plan as data, text and page.

    Args:
        uri: the repository.
        plan: what to write.
        now: names the folder; newer plans sort first.
        options: None reads the environment.

    Returns:
        URI of the folder.
    """
    state = open_state(uri, options)
    folder = f"{EXPIRATIONS}/{new_descending_xid(now)}"
    state.put(f"{folder}/plan.txt", draw_plan(plan).encode())
    state.put(f"{folder}/{PAGE}", plan_page(uri, plan).encode())
    state.put(f"{folder}/plan.json", plan.dumps().encode())
    return f"{state.uri}/{folder}"
