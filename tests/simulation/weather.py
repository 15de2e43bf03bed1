"""Weather: faults around a call, each kind separately, for a while, at a rate.

A spell of weather is a move of a history like any other: `Move(at, "weather", ("kv answer lost", seconds, rate))`.
While it lasts, each matching call is struck with this probability, by a draw from the process and the number of its
call, so leaving another move out changes nothing here.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from tests.simulation.noise import mix, stable_hash, unit

type Door = Literal["kv", "store", "lakefs", "any"]


@dataclass(frozen=True)
class Kind:
    name: str  # what people read
    door: Door  # the calls that it may strike
    only: frozenset[str] = frozenset()  # names of the calls that it may strike; empty is all of the door
    role: str = ""  # of the processes that it may strike; "" is all


PUTS = frozenset({"put", "put_if_absent", "put_if_match", "put_stream", "copy"})
CONDITIONAL = frozenset({"put_if_absent", "put_if_match"})

KINDS = (
    Kind("slow", "any"),
    Kind("slow server", "any", role="server"),
    Kind("kv down", "kv"),
    Kind("kv answer lost", "kv", frozenset({"set", "set_if", "delete", "delete_if"})),
    Kind("staging cut short", "kv", frozenset({"scan"}), role="server"),
    Kind("store down", "store"),
    Kind("store answer lost", "store", PUTS | {"delete"}),
    Kind("store repeated a put", "store", CONDITIONAL),
    Kind("put arrives again", "store", frozenset({"put"})),
    Kind("disk full", "store", PUTS),
    Kind("some keys fail", "store", frozenset({"delete", "delete_versions"})),
    Kind("some keys fail after all", "store", frozenset({"delete", "delete_versions"})),
    Kind("unreadable object", "store", frozenset({"get", "get_range", "open_read", "stat"})),
    Kind("proxy page", "lakefs"),
    Kind("proxy 404", "lakefs"),
    Kind("cached answer", "lakefs"),
    Kind("throttled", "lakefs"),
    Kind("request lost", "lakefs"),
    Kind("lakefs answer lost", "lakefs"),
    Kind("connection dropped", "lakefs"),
    Kind("commit cache poisoned", "lakefs", frozenset({"get_commit"})),
    Kind("server restarts", "lakefs"),
)
BY_NAME = {kind.name: kind for kind in KINDS}
_BY_DOOR = {
    door: tuple(kind for kind in KINDS if kind.door in (door, "any")) for door in ("kv", "store", "lakefs")
}


_SALT = {kind.name: stable_hash("weather", kind.name) for kind in KINDS}


@dataclass
class Weather:
    spells: dict[str, list[tuple[float, float, float]]] = field(default_factory=dict)
    struck: Counter[str] = field(default_factory=Counter)  # how often each kind did something

    def add(self, kind: str, begin: float, seconds: float, rate: float) -> None:
        assert kind in BY_NAME, f"there is no weather {kind!r}"
        self.spells.setdefault(kind, []).append((begin, begin + seconds, rate))

    def clear(self) -> None:
        self.spells.clear()

    def strikes(self, door: Door, name: str, now: float, draw: int, role: str = "") -> str:
        """The weather that strikes a call; "" for none."""
        if not self.spells:
            return ""
        for kind in _BY_DOOR[door]:
            spells = self.spells.get(kind.name)
            if not spells or (kind.only and name not in kind.only) or kind.role not in ("", role):
                continue
            rate = max((rate for begin, end, rate in spells if begin <= now < end), default=0.0)
            if rate and unit(mix(draw, _SALT[kind.name])) < rate:
                self.struck[kind.name] += 1
                return kind.name
        return ""
