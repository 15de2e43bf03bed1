"""This process: its environment variables, its optional packages, its writes to disk, and the users of its sockets."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dredge.errors import ConfigError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables within a block. Values may be secrets."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


# Of mallopt in glibc: number of arenas, kept bytes at the end of the heap, and the size from which a block is returned
# at once. By default there are eight arenas a processor, and the last two grow to 64 and 32 MiB.
_MALLOC = ((-8, 2), (-1, 1 << 22), (-3, 1 << 20))


# Read when numpy and pyarrow are imported.
_LIBRARIES = {
    # numpy's thread on each other processor would wait for work for 0.1 s of processor time.
    "OPENBLAS_NUM_THREADS": "1",
    # Arrow's own allocators keep 200 MiB of a listing, and one of them starts a thread.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


def set_up_libraries() -> None:
    """Have freed memory returned to the system, where the C library can, and no threads started by libraries: for a
    process with many threads, or one that forks, that has not imported numpy and pyarrow."""
    for name, value in _LIBRARIES.items():
        os.environ.setdefault(name, value)
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        for option, number in _MALLOC:
            library.mallopt(option, number)


def trim_memory() -> None:
    """Return freed memory to the system now, where the C library can: a process between two steps or tasks."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def search_few_cycles() -> None:
    """Search for cycles of objects rarely, and not among those loaded so far: for a process without other code."""
    # Airflow is a million objects, and a search takes 0.5 s: a few times a task, and at the end of the process. Most
    # objects of a run are rows and modules, without cycles: looking for some took an eighth of the time.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


_CREDENTIALS = struct.Struct(
    "3i"
)  # of Linux: process, user and group of who connected, or of who began to listen


def is_of_this_user(line: Connection) -> bool:
    """Whether the process at the other end of a Unix socket is of this user. True if the system does not say: then only
    the permissions of the socket's folder protect it."""
    user = user_of(line)
    return user is None or user == os.getuid()


def user_of(line: Connection) -> int | None:
    """Return the user at the other end of a Unix socket; None if the system does not say."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    with socket.socket(fileno=os.dup(line.fileno())) as there:
        found = there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(found)[1]
    return user


def need(module: str, extra: str) -> None:
    """Import an optional module. `extra`: that installs it. Raises ConfigError if it is not installed."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{error.name or module} is not installed: it comes with the extra {extra}, as in pip install"
            f" 'dredge[{extra}]'. Install it here, and for Spark's executors. Nothing was changed."
        ) from None


# Environment variable: "1" skips fsync, for folders of tests. After a loss of power, acknowledged writes can
# be lost.
NO_SYNC = "DREDGE_UNSAFE_NO_SYNC"


def is_durable() -> bool:
    """Whether acknowledged writes must survive a loss of power."""
    return os.environ.get(NO_SYNC) != "1"


def sync(fd: int) -> None:
    """Force a file or folder to disk. Raises OSError if the disk failed; written data may be lost."""
    if is_durable():
        os.fsync(fd)
