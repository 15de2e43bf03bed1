"""Threads of parallel requests: used again, and ended with the process."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future

import pytest

from dredge.storage.parallel import CallThreads


def test_calls_that_wait_for_each_other_all_have_threads_and_the_next_block_uses_these() -> None:
    def meet(together: threading.Barrier) -> threading.Thread:
        together.wait(10)
        return threading.current_thread()

    used = list[set[threading.Thread]]()
    for _ in range(2):
        together = threading.Barrier(50)
        with CallThreads() as threads:
            calls = [threads.submit(meet, together) for _ in range(50)]
        used.append({call.result() for call in calls})
    assert [len(found) for found in used] == [50, 50]
    assert len(used[0] & used[1]) >= 40


def test_after_an_error_in_the_block_and_in_calls_all_calls_have_ended() -> None:
    ended, calls = list[int](), list[Future[None]]()

    def work(number: int) -> None:
        time.sleep(0.02 * number)
        ended.append(number)
        if number % 2:
            raise ValueError

    def start_and_fail() -> None:
        with CallThreads() as threads:
            calls.extend(threads.submit(work, number) for number in range(4))
            raise KeyError

    with pytest.raises(KeyError):
        start_and_fail()
    assert sorted(ended) == [0, 1, 2, 3]
    assert [type(call.exception()) for call in calls] == [type(None), ValueError] * 2


def run(script: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)


_FORK = """
import os
from dredge.storage.parallel import at_once, ordered_map

assert sum(ordered_map(int, range(100), 8)) == 4950
if not (child := os.fork()):
    with at_once() as ask:
        os._exit(ask(sum, [1, 2]).result(timeout=10))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_process_starts_threads_of_its_own() -> None:
    assert run(_FORK).returncode == 3


_FORK_IN_BLOCK = """
import os, time
from dredge.storage.parallel import at_once

with at_once() as ask:
    ask(time.sleep, 0.2)
    if not (child := os.fork()):
        raise SystemExit(3)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_process_does_not_wait_for_calls_of_its_parent() -> None:
    assert run(_FORK_IN_BLOCK).returncode == 3


_INTERRUPTED = """
import threading
from dredge.storage.parallel import at_once

start = threading.Thread.start

def interrupted(thread):
    threading.Thread.start = start
    start(thread)
    raise KeyboardInterrupt

threading.Thread.start = interrupted
with at_once() as ask:
    ask(len, "a")
"""


def test_a_process_ends_after_an_interrupt_while_a_thread_starts() -> None:
    assert run(_INTERRUPTED).returncode == -signal.SIGINT


_UNCAUGHT = """
import time
from dredge.storage.parallel import ordered_map

def work(number):
    time.sleep(0.01)
    return number

results = ordered_map(work, range(100), 4)
next(results)
raise ValueError
"""


def test_a_process_ends_after_an_uncaught_error_between_two_results() -> None:
    ended = run(_UNCAUGHT)
    assert ended.returncode == 1
    assert b"ValueError" in ended.stderr
