"""Files of a run that are gone, edited or damaged: noticed before anything is deleted."""

import pytest

from dredge.errors import FormatError, RefusedError
from dredge.gc.steps import Run, bulk_delete, run_steps
from dredge.runs.tasks import LocalRunner
from dredge.storage import open_deleter
from tests.support.gc import busy_world, summary_of
from tests.support.index_parts import damaged
from tests.support.memory_store import memory_store


def test_candidates_that_changed_after_the_guards_are_not_swept() -> None:
    world, kept, gone = busy_world()
    context = world.marked()
    name = next(part.key for part in summary_of(context, "subtract").parts if "/part-" in part.name)
    data = context.folder.writer.get(name)
    context.folder.writer.put(name, damaged(data))
    with pytest.raises(FormatError, match="subtract/part-"):
        bulk_delete(context, LocalRunner())
    assert world.data() == kept | gone


@pytest.mark.parametrize(
    "step", ["slice_listing", "mark_uncommitted", "list_committed", "subtract", "check_limits"]
)
def test_an_edited_summary_is_not_believed(step: str) -> None:
    world, kept, gone = busy_world()
    context = world.marked()
    value = context.folder.read_json(f"{step}/_SUCCESS.json")
    value["counts"]["edited"] = 1
    context.folder.write_json(f"{step}/_SUCCESS.json", value)
    with pytest.raises(FormatError, match=step):
        world.run(context)
    assert world.data() == kept | gone


@pytest.mark.parametrize(
    "kind",
    [
        "slice_listing/part-",
        "mark_uncommitted/hashes-",
        "mark_uncommitted/addresses-",
        "list_committed/live-",
    ],
)
def test_a_part_that_is_gone_or_damaged_stops_the_run(kind: str) -> None:
    for damage in ("gone", "short"):
        world, kept, gone = busy_world()
        context = world.marked()
        name = next(
            part.key
            for part in summary_of(context, kind.partition("/")[0]).parts
            if part.name.startswith(kind)
        )
        if damage == "gone":
            open_deleter(context.folder.uri).delete([name])
        else:
            context.folder.writer.put(name, context.folder.writer.get(name)[:-8])
        fresh = Run.open(context.plan.run_uri, None, world.client, world.lake.clock)
        open_deleter(context.folder.uri).delete(
            ["list_committed/_SUCCESS.json", "subtract/_SUCCESS.json", "check_limits/_SUCCESS.json"]
            if not kind.startswith("list_committed")
            else ["subtract/_SUCCESS.json", "check_limits/_SUCCESS.json"]
        )
        if kind == "mark_uncommitted/addresses-":
            # Nothing but the report's sample reads these again.
            run_steps_expecting(fresh, FormatError, at="verify")
            assert world.data() == kept
            continue
        with pytest.raises(FormatError):
            run_steps(fresh, LocalRunner())
        assert world.data() == kept | gone


def run_steps_expecting(context: Run, error: type[Exception], at: str) -> None:
    with pytest.raises(error):
        run_steps(context, LocalRunner())
    failure = context.folder.read_failure(at)
    assert failure is not None


def test_an_object_without_a_time_stops_the_run() -> None:
    from datetime import UTC, datetime

    world, kept, gone = busy_world()
    store = next(iter([world.lake.namespace.removeprefix("memory://").partition("/")]))

    memory_store(store[0]).write(f"{store[2]}/data/timeless", b"x", datetime.fromtimestamp(0, UTC))
    with pytest.raises(RefusedError, match="no time"):
        world.collect()
    assert kept | gone <= world.data()
