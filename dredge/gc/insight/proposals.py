"""Proposed retention rules from a person's input (days, a branch, a file of rules), and their effect as a table and a
curve.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from dredge.errors import ConfigError
from dredge.gc.insight.what_if import Proposal
from dredge.lakefs import Rules
from dredge.runs.rendering import number_of, place_curve, size_text

AS_NOW = "as now"


def by_days(rules: Rules | None, days: Iterable[int], branch: str | None = None) -> list[Proposal]:
    """Propose other retention days for a branch, or by default; branches with their own days keep them. Raises
    ConfigError: days of a branch in a repository without rules."""
    if branch is None:
        branches = {} if rules is None else rules.branches
        return [Proposal(number_of(item, "day"), Rules(item, branches), item) for item in days]
    if rules is None:
        raise ConfigError(
            f"the repository has no rules, so days for {branch} alone leave the other branches without. Give a file of"
            " rules, or days without a branch."
        )
    default, branches = rules.default_retention_days, rules.branches
    return [
        Proposal(f"{branch}: {number_of(item, 'day')}", Rules(default, {**branches, branch: item}), item)
        for item in days
    ]


def as_now(rules: Rules | None) -> list[Proposal]:
    """Propose the rules in force; empty without rules."""
    return [] if rules is None else [Proposal(AS_NOW, rules)]


def from_file(text: str, name: str) -> Proposal:
    """Read rules in the format of `lakectl gc set-config`. Raises ConfigError: another format."""
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
    """Read days such as `7,14,30`, each once, in ascending order. Raises ConfigError: an invalid number of days."""
    try:
        return sorted({_days(int(item)) for item in text.split(",")})
    except ValueError:
        raise ConfigError(f"{text!r} is not a list of days such as 7,14,30") from None


def _days(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{value!r} is no number of days")
    return value


def points(found: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Days and freed bytes of the points on a curve, from JSON of `WhatIf`."""
    return sorted(
        (item["proposal"]["days"], item["freed"]["size_bytes"])
        for item in found
        if item["proposal"]["days"] is not None
    )


_BAR_WIDTH = 24


def table_lines(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw the effect of proposals (JSON of `WhatIf`) as a table with bars."""
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
    """A bar in proportion to the greatest value."""
    return "█" * round(_BAR_WIDTH * value / most) if most else ""


def curve_of(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Place the curve of days and freed bytes for `dredge.runs.rendering`; None for less than two points."""
    line = points(found)
    if len(line) < 2:
        return None
    marks = [(days, size, f"{number_of(days, 'day')}: {size_text(size)}") for days, size in line]
    return place_curve(marks, "Bytes freed by rules of so many days", "days kept", size_text)
