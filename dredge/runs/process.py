"""This process: its environment variables, and who is at the other end of its sockets."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection


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
