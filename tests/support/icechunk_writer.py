"""A writer of an Icechunk repository, as a program for every release of the library since 0.2.

    python -P icechunk_writer.py <json>     endpoint_url, bucket, prefix, access_key, secret_key, name, stop, amends,
                                         session_seconds_max

It commits on its own branch, every third time on a branch shared by all writers (with a rebase after a lost race),
amends on request, and prints one line of JSON: its last acknowledged writes, its failures, and separately the failures
of sessions longer than allowed.
It imports nothing of this project: its environments have the library only.
"""

import json
import os
import sys
import time
from typing import Any

CELLS = 5
SHARED_EVERY = 3
TRIES_MAX = 30
ROUNDS_MIN = 6


def main() -> None:
    """Write until the stop file exists."""
    import icechunk

    asked = json.loads(sys.argv[1])
    storage = icechunk.s3_storage(
        bucket=asked["bucket"],
        prefix=asked["prefix"],
        region="us-east-1",
        endpoint_url=asked["endpoint_url"],
        allow_http=True,
        access_key_id=asked["access_key"],
        secret_access_key=asked["secret_key"],
        force_path_style=True,
    )
    repository = icechunk.Repository.open(storage)
    expected = {"own": [0] * CELLS, "shared": [0] * CELLS}
    failed: list[str] = []
    lost: list[str] = []
    counts = dict.fromkeys(("commits", "rebases", "amends"), 0)
    number = 0
    while number < ROUNDS_MIN or not os.path.exists(asked["stop"]):
        number += 1
        place = "own" if number % SHARED_EVERY else "shared"
        amends = asked["amends"] and place == "own" and number % 4 == 0
        begun = time.monotonic()
        try:
            write(repository, asked["name"], place, number, amends, counts)
        except Exception as error:
            took = time.monotonic() - begun
            late = took >= asked["session_seconds_max"]
            (lost if late else failed).append(
                f"{place} {number}, {took:.1f} s: {type(error).__name__}: {str(error)[:300]}"
            )
        else:
            expected[place][number % CELLS] = number
    print(json.dumps({"expected": expected, "failed": failed, "lost": lost, **counts}))


def write(repository: Any, name: str, place: str, number: int, amends: bool, counts: dict[str, int]) -> None:
    """Write one cell and commit, or amend; on the shared branch after a rebase."""
    import icechunk
    import zarr

    session = repository.writable_session(name if place == "own" else "shared")
    zarr.open_array(session.store, path=f"{name}-{place}")[number % CELLS] = number
    if amends:
        session.amend(f"{name} {number}")
        counts["amends"] += 1
        return
    for _ in range(TRIES_MAX):
        try:
            session.commit(f"{name} {number}")
        except icechunk.ConflictError:
            session.rebase(icechunk.ConflictDetector())
            counts["rebases"] += 1
        else:
            counts["commits"] += 1
            return
    raise RuntimeError(f"others were first {TRIES_MAX} times")


if __name__ == "__main__":
    main()
