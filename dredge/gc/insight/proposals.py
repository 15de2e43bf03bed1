"""Proposals from what a person writes: days, a branch, or a file of rules.

What rules would free, as a table for the terminal and as a curve.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dredge.errors import ConfigError
from dredge.gc.insight.what_if import Proposal
from dredge.lakefs import Rules
from dredge.runs.curve import place_curve
from dredge.runs.words import size_text

AS_NOW = "as now"


def by_days(rules: Rules | None, days: Iterable[int], branch: str | None = None) -> list[Proposal]:
    """Propose other days.

    Args:
        rules: in force; branches that have days of their own keep them.
        days: for the default, or for the branch.
        branch: whose days are proposed; None is the default.

    Raises:
        ConfigError: days of a branch are proposed, and there are no rules for the others.
    """
    if branch is None:
        branches = {} if rules is None else rules.branches
        return [Proposal(f"{item} days", Rules(item, branches), item) for item in days]
    if rules is None:
        raise ConfigError(
            f"the repository has no rules, so days for {branch} alone say nothing of the other branches. Give a file of"
            " rules, or days without a branch."
        )
    default, branches = rules.default_retention_days, rules.branches
    return [
        Proposal(f"{branch}: {item} days", Rules(default, {**branches, branch: item}), item) for item in days
    ]


def as_now(rules: Rules | None) -> list[Proposal]:
    """Propose the rules in force; nothing where there are none."""
    return [] if rules is None else [Proposal(AS_NOW, rules)]


def from_file(text: str, name: str) -> Proposal:
    """Read rules as `lakectl gc set-config` takes them.

    Args:
        text: `{"default_retention_days": 30, "branches": [{"branch_id": "main", "retention_days": 90}]}`.
        name: of the file.

    Raises:
        ConfigError: not such a file.
    """
    try:
        value: Any = json.loads(text)
        branches = {item["branch_id"]: _days(item["retention_days"]) for item in value.get("branches") or []}
        return Proposal(f"rules of {name}", Rules(_days(value["default_retention_days"]), branches))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{name} is not a file of rules such as"
            ' {"default_retention_days": 30, "branches": [{"branch_id": "main", "retention_days": 90}]}'
            f" ({type(error).__name__}: {error})"
        ) from None


def read_days(text: str) -> list[int]:
    """Read days such as `7,14,30`, each once, in the order of their length.

    Raises:
        ConfigError: something that is no number of days.
    """
    try:
        return sorted({_days(int(item)) for item in text.split(",")})
    except ValueError:
        raise ConfigError(f"{text!r} is not a list of days such as 7,14,30") from None


def _days(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of days")
    return value


def points(found: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Days and freed bytes of what lies on a curve, as JSON of `WhatIf`."""
    return sorted(
        (item["proposal"]["days"], item["freed"]["size_bytes"])
        for item in found
        if item["proposal"]["days"] is not None
    )


_BAR_WIDTH = 24


def table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw what proposals would free as a table, and as bars.

    Args:
        found: as JSON of `WhatIf`.
    """
    most = max((item["freed"]["size_bytes"] for item in found), default=0)
    width = max([5, *(len(item["proposal"]["name"]) for item in found)]) + 2
    yield f"{'rules':<{width}}{'commits':>9}{'freed':>12}{'bytes':>11}{'more than now':>15}{'may be held':>13}"
    for item in found:
        name, freed = item["proposal"]["name"], item["freed"]
        about = item["bound"] and f"{item['bound']} "
        more = item["more"]["size_bytes"] - item["less"]["size_bytes"]
        yield (
            f"{name:<{width}}{item['commits']:>9,}{about + format(freed['objects'], ','):>12}"
            f"{size_text(freed['size_bytes']):>11}{('-' if more < 0 else '') + size_text(abs(more)):>15}"
            f"{item['held']['objects']:>13,}  {bar(freed['size_bytes'], most)}"
        )
    for item in {item["unknown"]: item for item in found if item["unknown"]}.values():
        yield f"{item['bound']} {item['unknown']}"


def bar(value: int, most: int) -> str:
    """A bar as long as a value is to the greatest."""
    return "█" * round(_BAR_WIDTH * value / most) if most else ""


def curve_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Place the curve of days and freed bytes for `dredge.runs.curve`; None when there are not two points.

    Args:
        found: as JSON of `WhatIf`.
    """
    line = points(found)
    if len(line) < 2:
        return None
    marks = [(days, size, f"{days} days: {size_text(size)}") for days, size in line]
    return place_curve(marks, "Bytes that rules of so many days would free", "days kept", size_text)
