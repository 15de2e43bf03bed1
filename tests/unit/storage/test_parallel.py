"""Reading ahead is fast for small objects, and bounded where large ones follow them."""

import time

from dredge.storage.parallel import get_ahead

SMALL, LARGE = b"x" * 100, bytes(20 << 20)


def test_few_large_objects_behind_many_small_ones_are_in_memory() -> None:
    keys = [str(number) for number in range(1000)]
    begun, yielded = list[str](), 0
    ahead = list[int]()

    def get(key: str) -> bytes:
        begun.append(key)
        ahead.append(len(begun) - yielded)
        return SMALL if int(key) < 500 else LARGE

    for number, (key, data) in enumerate(get_ahead(get, keys, 16)):
        assert (key, len(data)) == (keys[number], len(SMALL if number < 500 else LARGE))
        time.sleep(0.001 if number >= 500 else 0)  # slower than the reading
        yielded = number + 1
    assert max(ahead) <= 130
