"""Parallel calls made in order, in the calling thread.

A store in memory answers at once; the threads of a collection (200 a run) would cost a third of its time. The simulator
has threads of its own; the contract of stores, system tests and DAGs have real ones.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import pytest

from dredge.storage.parallel import CallThreads


class InOrder(Executor):
    """Does submitted work at once, in the caller."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit[R](self, fn: Callable[..., R], /, *arguments: Any, **more: Any) -> Future[R]:
        future = Future[R]()
        try:
            future.set_result(fn(*arguments, **more))
        except BaseException as error:  # as a thread of a pool does
            future.set_exception(error)
        return future


@contextmanager
def working_in_order() -> Iterator[None]:
    """Give the imported modules of `dredge` a pool without threads."""
    real = {"ThreadPoolExecutor": ThreadPoolExecutor, "CallThreads": CallThreads}
    with ExitStack() as stack:
        for name, module in list(sys.modules.items()):
            for attribute in real if name.startswith("dredge.") else ():
                if vars(module).get(attribute) is real[attribute]:
                    stack.enter_context(mock.patch.object(module, attribute, InOrder))
        yield


@pytest.fixture(scope="module", autouse=True)
def in_order() -> Iterator[None]:
    """Make parallel calls in order; folders of tests whose subject are threads override this."""
    with working_in_order():
        yield
