"""What a test lets a store in memory do instead of its own work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_stand_ins: dict[str, Callable[..., Any]] = {}


def can_be_stood_in[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """Let tests put something in the place of a method or function of a store."""
    name = method.__qualname__

    @functools.wraps(method)
    def call(*arguments: P.args, **more: P.kwargs) -> R:
        stand_in = _stand_ins.get(name)
        if stand_in is None:
            return method(*arguments, **more)
        found: R = stand_in(method, *arguments, **more)
        return found

    return call


@contextmanager
def standing_in(method: Callable[..., Any], stand_in: Callable[..., Any]) -> Iterator[None]:
    """Call `stand_in(method, ...)` instead of a method that `can_be_stood_in`, in every store of this process."""
    assert hasattr(method, "__wrapped__"), f"nothing can stand in for {method.__qualname__}"
    name = method.__qualname__
    before = _stand_ins.get(name)
    _stand_ins[name] = stand_in
    try:
        yield
    finally:
        if before is None:
            del _stand_ins[name]
        else:
            _stand_ins[name] = before
