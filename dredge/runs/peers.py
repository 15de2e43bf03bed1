"""Who is at the other end of a line between two processes of one machine."""

from __future__ import annotations

import os
import socket
import struct
from multiprocessing.connection import Connection

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
