"""Who is acting: the user whose request is being handled, for hooks that act in that user's name."""

from __future__ import annotations

from contextvars import ContextVar

acting_user: ContextVar[str] = ContextVar("acting_user", default="")
"""Name of the user; "" outside of a request. Work in the background keeps that of the request that started it."""
