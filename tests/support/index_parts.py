"""A committed index in a new store, with given ranges."""

from dataclasses import dataclass

import numpy as np

from dredge.gc.index.ranges import RangeHashes
from dredge.gc.index.store import PARTS, CommittedIndex, NewPart, read_part, write_part
from dredge.storage import ObjectWriter

NAMESPACE = "memory://index-parts/lake"


def named(range_id: str, *addresses: int, sizes: tuple[int, ...] = (7,)) -> RangeHashes:
    found = np.array(addresses or (1, 2), np.uint64)
    return RangeHashes(range_id, len(found), 0, found, np.array(sizes, np.uint64))


def damaged(data: bytes) -> bytes:
    """Change the last byte."""
    return data[:-1] + bytes([data[-1] ^ 1])


@dataclass
class Kept:
    state: ObjectWriter

    @property
    def index(self) -> CommittedIndex:
        return CommittedIndex.load(self.state, NAMESPACE)

    def add(self, name: str, *ranges: RangeHashes) -> NewPart:
        """Add a part with these ranges; of equal ranges the part of the lower name is used."""
        new = write_part(self.state, name, ranges)
        self.index.add(f"{name}-", [new])
        return new

    def parts(self) -> dict[str, list[str]]:
        return self.index.group(self.index.places)[0]

    def files(self) -> set[str]:
        return {info.key.removeprefix(f"{PARTS}/") for info in self.state.list_level(f"{PARTS}/").objects}

    def damage(self, new: NewPart) -> None:
        name = new.part.addresses.name
        self.state.put(name, damaged(self.state.get(name)))

    def ranges(self, part: str) -> list[RangeHashes]:
        return read_part(self.state, self.index.parts[part], lambda _: True)


def says(found: RangeHashes) -> tuple[object, ...]:
    return found.range_id, found.count, found.outside, found.addresses.tolist(), found.sizes.tolist()
