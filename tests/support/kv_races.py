"""Concurrent work of several processes on one key-value store; importable for spawned children."""

import time

from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, open_store


def create_all(url: str, start_at: float, name: bytes, keys: int) -> list[int]:
    """Try to create each of some keys; returns the keys created by this process."""
    won = []
    with open_store(url) as store:
        time.sleep(max(0.0, start_at - time.time()))
        for number in range(keys):
            try:
                store.set_if(b"race", b"%03d" % number, name, None)
                won.append(number)
            except PredicateFailedError:
                pass
    return won


def count_up(url: str, start_at: float, times: int) -> int:
    """Add one to a shared counter, again after each lost race; returns the number of lost races."""
    lost = done = 0
    with open_store(url) as store:
        time.sleep(max(0.0, start_at - time.time()))
        while done < times:
            try:
                old: bytes | None = store.get(b"race", b"counter")
            except KeyNotFoundError:
                old = None
            try:
                store.set_if(b"race", b"counter", b"%d" % (int(old or b"0") + 1), old)
                done += 1
            except PredicateFailedError:
                lost += 1
    return lost
