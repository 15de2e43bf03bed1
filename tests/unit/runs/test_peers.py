"""Who is at the other end of a socket, the kernel says; nobody can claim it."""

from __future__ import annotations

import os
from multiprocessing.connection import Client, Listener
from pathlib import Path

import pytest

from dredge.runs import peers


def test_both_ends_of_a_socket_know_each_others_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        Listener(str(tmp_path / "s"), "AF_UNIX") as listener,
        Client(str(tmp_path / "s"), "AF_UNIX") as asking,
        listener.accept() as asked,
    ):
        for line in (asking, asked):
            assert peers.user_of(line) == os.getuid()
            assert peers.is_of_this_user(line)
        monkeypatch.setattr(peers, "user_of", lambda _: os.getuid() + 1)
        assert not peers.is_of_this_user(asking)
        monkeypatch.setattr(peers, "user_of", lambda _: None)
        assert peers.is_of_this_user(asking)
