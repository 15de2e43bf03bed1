"""Expirations by threshold and flags."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from dredge.icechunk.expiration import apply
from dredge.icechunk.expiration.config import Expiration
from dredge.icechunk.expiration.plan import Applied, ExpirationPlan, plan_expiration
from dredge.icechunk.history import History, Ref
from dredge.storage import ObjectReader, ObjectWriter

_OF_AN_APPLICATION = ("approved_digest", "delete_ref")
_OF_THE_CALL = ("approved_digest", "lease", "options")


def expire(uri: str, threshold: datetime, **settings: Any) -> Applied:
    call = {name: settings.pop(name) for name in _OF_THE_CALL if name in settings}
    return apply.expire(uri, Expiration(threshold=threshold.isoformat(), **settings), **call)


def expire_in_place(
    writer: ObjectWriter,
    threshold: datetime,
    approved_digest: str | None = None,
    delete_ref: Callable[[Ref], None] = lambda ref: pytest.fail(f"{ref} is deleted"),
    **settings: Any,
) -> Applied:
    """Plan and apply an expiration of spec 1, by Icechunk's rule unless the settings name another."""
    planner = _planner(threshold, {"rule": "spec_v1", **settings})
    return apply.expire_in_place(
        writer, planner, approved_digest=approved_digest, delete_ref=lambda: delete_ref
    )


def expire_by_library(
    reader: ObjectReader,
    expire: Callable[[datetime, bool, bool], set[str]],
    threshold: datetime,
    **settings: Any,
) -> Applied:
    """Plan and apply an expiration of spec 2."""
    call = {name: settings.pop(name) for name in _OF_AN_APPLICATION if name in settings}
    return apply.expire_by_library(reader, expire, _planner(threshold, settings), **call)


def _planner(threshold: datetime, settings: dict[str, Any]) -> Callable[[History], ExpirationPlan]:
    return lambda history: plan_expiration(history, threshold, **settings)
