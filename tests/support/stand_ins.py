"""Replacements of parts of a store in memory, for tests."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_stand_ins: dict[str, Callable[..., Any]] = {}


def can_be_stood_in[**P, R](method: Callable[P, R]) -> Callable[P, R]:
    """Allow tests to replace a method or function of a store."""
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
    """Call `stand_in(method, ...)` instead of a method with `can_be_stood_in`, in every store of this process."""
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
