"""The product's view of its machine (time, chance, threads, memory stores), taken from a history.

    with installed(scheduler, stores):
        scheduler.run()

No file of the product is changed, and everything is restored in the end. Inside, the machine's clock is that of the
running process, and every random id is from the running actor's stream.
"""

from __future__ import annotations

import concurrent.futures
import gc
import importlib
import logging
import os
import pkgutil
import random
import secrets
import sys
import threading
import time
import types
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from random import Random
from typing import Any
from unittest import mock

from dredge import compiled, xid
from dredge.gc.mark_uncommitted import kv_store
from dredge.lakefs import prepare
from dredge.runs import folder
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import CallThreads
from tests.simulation.clock import START
from tests.simulation.scheduler import Scheduler
from tests.simulation.stores import (
    SimDeleter,
    SimReader,
    SimVersionDeleter,
    SimVersions,
    SimWriter,
    Stores,
    current_rows,
    using_stores,
)
from tests.simulation.tables import read_table, table_bytes
from tests.simulation.threads import Future, Pool, Threads, wait_all
from tests.support import memory_driver as memory

_OPTIONS = StorageOptions()
real_seconds = time.perf_counter
"""The machine's clock, for figures of the simulator itself."""
_ROOMS = (
    "dredge.gc",
    "dredge.runs",
    "dredge.lakefs",
    "dredge.kernels",
    "dredge.trash",
    "dredge.icechunk",
    "dredge.kv",
    "lakefs_embedded.kv",
    "dredge.storage",
    "dredge.sets",
    "dredge.undo",
    "lakefs_embedded.catalog",
    "lakefs_embedded.staging",
    "lakefs_embedded.refs",
    "lakefs_embedded.committed",
    "lakefs_embedded.server.handlers",
    "lakefs_embedded.auth",
)
_OURS = ("dredge.", "lakefs_embedded.", "tests.support.memory_")
_urandom = os.urandom
_REAL_UUID = types.SimpleNamespace(uuid4=lambda: uuid.UUID(bytes=_urandom(16), version=4))
"""For files on disk shared with other processes: filling a cache must draw nothing from a history."""
_LEFT_OUT = (
    "dredge.kv.postgres",
    "dredge.kv.dynamodb",
    "lakefs_embedded.kv.postgres",
    "lakefs_embedded.kv.dynamodb",
    "dredge.storage.s3",
    "dredge.storage.azure",
    "dredge.storage.gcs",
)


@contextmanager
def installed(scheduler: Scheduler, stores: Stores) -> Iterator[None]:
    """Let the product take time, chance, threads and `memory://` stores from a history."""
    import_product()
    with ExitStack() as stack:
        for target, name, value in (
            *_time(scheduler),
            *_chance(scheduler),
            *_threads(scheduler),
            *_tables(),
            (importlib.import_module("numba.core.caching"), "uuid", _REAL_UUID),
            (StorageOptions, "from_env", classmethod(lambda _class, _environ=None: _OPTIONS)),
            (memory, "MemoryReader", SimReader),
            (memory, "MemoryWriter", SimWriter),
            (memory, "MemoryDeleter", SimDeleter),
            (memory, "MemoryVersions", SimVersions),
            (memory, "MemoryVersionDeleter", SimVersionDeleter),
            (kv_store.KVAccess, "from_env", lambda _environ=None: kv_store.KVAccess("memory://kv")),
            (kv_store, "open_row_reader", current_rows),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        stack.enter_context(using_stores(stores))
        stack.enter_context(_quiet())
        yield


@cache
def import_product() -> None:
    """Import all modules, so that none is imported during a history with its clock and chance."""
    compiled.kernels()
    for room in _ROOMS:
        package = importlib.import_module(room)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.startswith(_LEFT_OUT):
                importlib.import_module(found.name)


@contextmanager
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)


type Patch = tuple[Any, str, Any]


def _time(scheduler: Scheduler) -> Sequence[Patch]:
    mine = threading.get_ident()
    began = START.timestamp()

    def shown() -> float:
        current = scheduler.current
        return scheduler.now if current is None else current.process.clock.seconds()

    def ours[T](virtual: Callable[..., T], real: Callable[..., T]) -> Callable[..., T]:
        return lambda *arguments: (virtual if threading.get_ident() == mine else real)(*arguments)

    def running(*_clock: int) -> float:
        # What a machine counts since it was switched on does not jump.
        current = scheduler.current
        return scheduler.now if current is None else scheduler.now * (1 + current.process.clock.drift)

    def sleep(seconds: float) -> None:
        scheduler.pass_time(seconds)

    return (
        (time, "sleep", ours(sleep, time.sleep)),
        (time, "time", ours(lambda: began + shown(), time.time)),
        (time, "time_ns", ours(lambda: int((began + shown()) * 1e9), time.time_ns)),
        (time, "monotonic", ours(running, time.monotonic)),
        (time, "perf_counter", ours(running, time.perf_counter)),
        (time, "clock_gettime", ours(running, time.clock_gettime)),
        (prepare.prepare_commits, "__defaults__", (ours(sleep, time.sleep),)),
    )


def _chance(scheduler: Scheduler) -> Sequence[Patch]:
    def stream() -> Random:
        current = scheduler.current
        return scheduler.setup_chance if current is None else current.chance

    def token_bytes(count: int | None = None) -> bytes:
        return stream().randbytes(32 if count is None else count)

    return (
        (os, "urandom", token_bytes),
        (os, "getpid", lambda: 4242),
        (secrets, "token_bytes", token_bytes),
        (secrets, "choice", lambda items: stream().choice(items)),
        (secrets, "randbelow", lambda end: stream().randrange(end)),
        (random, "random", lambda: stream().random()),
        (random, "uniform", lambda low, high: stream().uniform(low, high)),
        (random, "choice", lambda items: stream().choice(items)),
        (xid, "_machine", b"sim"),
        (xid, "_counter", scheduler.setup_chance.randrange(1 << 24)),
    )


def _threads(scheduler: Scheduler) -> Iterator[Patch]:
    def pool(*arguments: object, **more: object) -> Pool:
        return Pool(scheduler, *arguments, **more)

    stand_ins = {
        "threading": (threading, Threads(scheduler)),
        "ThreadPoolExecutor": (concurrent.futures.ThreadPoolExecutor, pool),
        "CallThreads": (CallThreads, pool),
        "Future": (concurrent.futures.Future, _FutureOf(scheduler)),
        "wait": (concurrent.futures.wait, wait_all),
    }
    for name, module in sorted(sys.modules.items()):
        if not name.startswith(_OURS) or not isinstance(module, types.ModuleType):
            continue
        for attribute, (real, simulated) in stand_ins.items():
            if module.__dict__.get(attribute) is real:
                yield module, attribute, simulated


def _tables() -> Iterator[Patch]:
    stand_ins = {
        "parquet_bytes": (folder.parquet_bytes, table_bytes),
        "read_parquet": (folder.read_parquet, read_table),
    }
    for name, module in sorted(sys.modules.items()):
        if name.startswith(_OURS) and isinstance(module, types.ModuleType):
            for attribute, (real, simulated) in stand_ins.items():
                if module.__dict__.get(attribute) is real:
                    yield module, attribute, simulated


class _FutureOf:
    """`Future` as a callable and subscriptable name."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def __call__(self) -> Future[Any]:
        return Future(self._scheduler)

    def __getitem__(self, _item: object) -> _FutureOf:
        return self
