"""A focus: scenes and values of the setting, more frequent in the histories of a hunt for one bug.

etcd's robustness suite finds each known bug with a chosen configuration: traffic, cluster and failpoint. A focus does
the same here. All its scenes and values are drawn in general histories as well, and all other draws are made from the
seed, so a general history could find the same; a focus takes fewer histories.

    Focus(("long_commit",), {"read_kv": (True,)})
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Focus:
    scenes: tuple[str, ...] = ()  # names of scenes; each history has one of them. () is no focus on scenes
    # some of the values that a part of the setting may have, by its name; one of them is drawn
    settings: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.scenes or self.settings)

    def draw(self, chance: random.Random, table: Mapping[str, Sequence[Any]], name: str) -> Any:
        values = [value for value in table[name] if value in self.settings.get(name, table[name])]
        return chance.choice(values)

    def check(self, scenes: Mapping[str, object], table: Mapping[str, Sequence[Any]]) -> None:
        unknown = [name for name in self.scenes if name not in scenes]
        for name, values in self.settings.items():
            unknown += [f"{name}={value!r}" for value in values if value not in table.get(name, ())]
            unknown += [] if values else [f"{name} without a value"]
        if unknown:
            raise ValueError(f"no history has {', '.join(unknown)}")

    def to_text(self) -> str:
        settings = {name: list(values) for name, values in self.settings.items()}
        return json.dumps({"scenes": list(self.scenes), "settings": settings})

    @classmethod
    def from_text(cls, text: str) -> Self:
        value = json.loads(text)
        settings = {name: tuple(values) for name, values in value.get("settings", {}).items()}
        return cls(tuple(value.get("scenes", ())), settings)


ANYTHING = Focus()
"""No focus."""
