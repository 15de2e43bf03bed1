"""The sub-commands of `dredge`: a module for each command, with a click object named `command`."""

import math
from typing import Any

import click


class FiniteRange(click.FloatRange):
    """A finite number within bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the number; fails if it is out of bounds or not finite."""
        # NaN compares false with every bound, so the base class lets it through.
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found
