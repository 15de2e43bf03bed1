"""Requests in flight: as many as keep a server busy, fewer after refusals, and bounded where objects are large."""

import itertools
import threading
import time
from collections import deque

import pytest

from dredge.storage.parallel import MOST, InFlight, _Rounds, get_ahead, ordered_map

SMALL, LARGE = b"x" * 100, bytes(20 << 20)


@pytest.mark.parametrize("is_near", [False, True])
def test_few_large_objects_behind_many_small_ones_are_in_memory(is_near: bool) -> None:
    keys = [str(number) for number in range(1000)]
    begun, yielded = list[str](), 0
    ahead = list[int]()
    flight = InFlight(MOST if is_near else 16)  # a near server beside a distant one has its number
    flight.is_near = is_near

    def get(key: str) -> bytes:
        begun.append(key)
        ahead.append(len(begun) - yielded)
        return SMALL if int(key) < 500 else LARGE

    for number, (key, data) in enumerate(get_ahead(get, keys, flight)):
        assert (key, len(data)) == (keys[number], len(SMALL if number < 500 else LARGE))
        time.sleep(0.001 if number >= 500 else 0)  # slower than the reading
        yielded = number + 1
    assert max(ahead) <= MOST + 2


@pytest.mark.parametrize("is_near", [False, True])
def test_results_before_an_error_come_in_order_and_few_items_start_after_it(is_near: bool) -> None:
    flight, asked = InFlight(4), list[int]()
    flight.is_near = is_near

    def ask(item: int) -> int:
        asked.append(item)
        if item == 100:
            raise ValueError
        return item

    found = list[int]()
    with pytest.raises(ValueError):
        found.extend(ordered_map(ask, range(1000), flight))
    assert found == list(range(100))
    assert len(asked) == len(set(asked)) < 200


def test_a_thread_makes_eight_requests_to_a_near_server_in_a_row() -> None:
    flight, threads = InFlight(4), dict[int, int]()
    flight.is_near = True
    list(ordered_map(lambda item: threads.setdefault(item, threading.get_ident()), range(200), flight))
    rows = itertools.batched((threads[item] for item in range(80)), 8)
    assert [len({*row}) for row in rows] == [1] * 10


class Server:
    """A server and a client in virtual seconds: each answer waits, then takes the one processor."""

    def __init__(self, wait: float, work: float, servers: int = MOST) -> None:
        self.now = self.used = 0.0
        self.flight = InFlight(16, lambda: self.now, lambda: self.used)
        self._wait, self._work = wait, work
        self._servers = [0.0] * servers

    def answer(self, requests: int) -> None:
        """Ask so often, with as many requests in flight as the number says."""
        rounds = _Rounds(self.flight)
        running = deque[float]()
        for _ in range(requests):
            while len(running) >= self.flight.size:
                self.now = max(self.now, running.popleft()) + self._work
                self.used += self._work
                rounds.answered(self._wait)
            free = min(range(len(self._servers)), key=self._servers.__getitem__)
            self._servers[free] = max(self.now, self._servers[free]) + self._wait
            running.append(self._servers[free])


@pytest.mark.parametrize(
    ("wait", "work", "servers", "least", "most"),
    [
        (0.0005, 0.001, MOST, 4, 4),  # at no latency the client's processor is busy
        (0.002, 0.0001, 1, 4, 16),  # the server has one processor
        (0.02, 0.0001, 1, 4, 16),
        (0.04, 0.001, MOST, 32, 128),  # at a latency the server has to be kept busy
        (0.04, 0.0001, MOST, MOST, MOST),
    ],
)
def test_as_many_requests_are_in_flight_as_bring_more_answers(
    wait: float, work: float, servers: int, least: int, most: int
) -> None:
    server = Server(wait, work, servers)
    server.answer(2000)
    assert least <= server.flight.size <= most
    assert server.flight.is_near == (wait < 0.005)


def test_more_requests_bring_more_answers_at_a_latency() -> None:
    server, fixed = Server(0.04, 0.0005), Server(0.04, 0.0005)
    fixed.flight.set = lambda size, refusals: False  # type: ignore[method-assign]
    server.answer(3000)
    fixed.answer(3000)
    assert server.now < fixed.now / 2


def test_a_refusal_halves_the_requests_in_flight_and_a_round_adds_one() -> None:
    server = Server(0.04, 0.001)
    server.answer(2000)
    reached = server.flight.size
    for _ in range(10):  # those of one moment count once
        server.flight.refused()
    assert server.flight.size == reached // 2
    server.answer(400)
    assert reached // 2 < server.flight.size < reached
    server.now += 60
    server.flight.refused()
    assert server.flight.size < reached // 2


def test_after_refusals_one_request_is_left() -> None:
    server = Server(0.04, 0.001)
    for _ in range(10):
        server.now += 60
        server.flight.refused()
    assert server.flight.size == 1
