"""Whatever the steps before were wrong about, nothing outside `data/` is deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.gc.bulk_delete.sweep import SweepTask
from dredge.gc.steps import bulk_delete
from dredge.hashing import hash64
from dredge.runs.folder import RunFolder
from dredge.runs.payload import from_json, to_json
from dredge.runs.summary import PartInfo
from dredge.runs.tasks import LocalRunner
from tests.support.gc import busy_world

METADATA = "_lakefs/3f4c"


class Misled(LocalRunner):
    """Hands the sweep candidates of which one lies elsewhere."""

    def __init__(self, folder: RunFolder) -> None:
        super().__init__()
        self.folder = folder
        self.parts = 0

    def run(self, name: str, fn: Any, config: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> Any:
        if name == "bulk_delete" and not self.parts:  # the first such tasks delete
            tasks = [{**task, "task": self.mislead_all(task["task"])} for task in tasks]
        return super().run(name, fn, config, tasks)

    def mislead_all(self, task: dict[str, Any]) -> dict[str, Any]:
        parts = [self.mislead(part) for part in from_json(SweepTask, task).candidates]
        return to_json(SweepTask(candidates=parts))

    def mislead(self, part: PartInfo) -> PartInfo:
        rows = self.folder.read_part(part)
        addresses = pa.array([METADATA, *rows["address"].to_pylist()[1:]], pa.string())
        for name, column in (("address", addresses), ("hash", pa.array(hash64(addresses)))):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), column)
        self.parts += 1
        return self.folder.write_table("elsewhere", self.parts, rows, "part")


def test_sweep_deletes_nothing_when_a_candidate_lies_outside_data() -> None:
    world, kept, gone = busy_world()
    world.lake.objects.put(METADATA, b"a range")
    context = world.plan()
    world.mark(context)
    with pytest.raises(FormatError, match="outside data/"):
        bulk_delete(context, Misled(context.folder))
    assert world.data() == kept | gone
    assert METADATA in world.lake.keys("_lakefs/")
