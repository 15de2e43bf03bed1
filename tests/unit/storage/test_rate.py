import pytest

from dredge.storage.deleting import AdaptiveRate


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.now += seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def make(clock: Clock, floor: float = 10.0) -> AdaptiveRate:
    return AdaptiveRate(floor=floor, monotonic=clock, sleep=clock.sleep)


def test_the_limit_is_kept(clock: Clock) -> None:
    rate = make(clock)
    rate.acquire(2000)
    clock.now += 1
    rate.throttled()
    start = clock.now
    for _ in range(20):
        rate.acquire(500)
    assert 8500 / 1.6 / 1000 < clock.now - start < 10
