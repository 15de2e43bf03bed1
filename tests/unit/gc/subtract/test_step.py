"""Every listed row is compared, or the run ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dredge.errors import FormatError
from tests.support.gc import Parallel, busy_world


class Forgetful(Parallel):
    """Leaves out the last task of each step's first round."""

    def __init__(self, step: str) -> None:
        super().__init__()
        self.step = step
        self.left_out = 0

    def run(self, name: str, fn: Any, config: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Any:
        if name == self.step and not self.left_out:
            self.left_out, tasks = 1, tasks[:-1]
        return super().run(name, fn, config, tasks)


def test_rows_that_no_task_compared_stop_the_run() -> None:
    world, kept, gone = busy_world()
    world.runner = runner = Forgetful("subtract")
    with pytest.raises(FormatError, match="rows were compared"):
        world.collect(tuning={"part_rows": 2})
    assert runner.left_out
    assert world.data() == kept | gone
