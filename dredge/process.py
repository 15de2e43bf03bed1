"""This process: its environment variables, its optional packages, its writes to disk, and the users of its sockets."""

from __future__ import annotations

import importlib
import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection

from dredge.errors import ConfigError


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables, and put back what was there before.

    Args:
        variables: values by name; secrets are fine here, they reach no argument and no log.
    """
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


_CREDENTIALS = struct.Struct(
    "3i"
)  # of Linux: process, user and group of who connected, or of who began to listen


def is_of_this_user(line: Connection) -> bool:
    """Whether the process at the other end of a Unix socket is this user's, whatever lets it reach the socket.

    Args:
        line: connected. Where the system does not tell, the permissions of the socket's folder stand alone.
    """
    user = user_of(line)
    return user is None or user == os.getuid()


def user_of(line: Connection) -> int | None:
    """The user of the process at the other end of a Unix socket, by the kernel; None where it tells nothing."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    with socket.socket(fileno=os.dup(line.fileno())) as there:
        found = there.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(found)[1]
    return user


def need(module: str, extra: str) -> None:
    """Look whether a module of an extra can be imported; the module is loaded then.

    Args:
        module: its name.
        extra: that brings it.

    Raises:
        ConfigError: it cannot.
    """
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{error.name or module} is not installed: it comes with the extra {extra}, as in pip install"
            f" 'dredge[{extra}]'. Install it here, and for Spark's executors. Nothing was touched."
        ) from None


NO_SYNC = "DREDGE_UNSAFE_NO_SYNC"
"""Environment variable: "1" forces nothing to the disk. A loss of power then loses what was acknowledged."""


def is_durable() -> bool:
    """Whether acknowledged writes have to survive a loss of power."""
    return os.environ.get(NO_SYNC) != "1"


def sync(fd: int) -> None:
    """Force a file, or the names in a folder, to the disk.

    Args:
        fd: descriptor of the file or the folder.

    Raises:
        OSError: the disk failed; what was written may be lost.
    """
    if is_durable():
        os.fsync(fd)
