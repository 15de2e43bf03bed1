"""`dredge gc`: the list of runs, and reports of good, failed and foreign ones."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from dredge.commands.gc import command
from dredge.errors import RefusedError
from tests.support.gc import make_world


def ask(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_a_failed_run_has_its_exit_code_and_says_what_to_do() -> None:
    world = make_world()
    world.upload("a", b"1")
    context = world.plan()

    def broken(*_: object) -> None:
        raise RefusedError("the server said no")

    world.client.prepare_uncommitted = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(RefusedError):
        world.run(context)
    result = ask("report", context.plan.run_uri)
    assert result.exit_code == 1
    assert "the server said no" in result.output
    assert "mark_uncommitted" in result.output


def test_the_index_is_verified_and_rebuilt() -> None:
    world = make_world()
    world.upload("a", b"1")
    world.lake.commit()
    world.age(days=2)
    world.collect()
    good = ask("index", "verify", world.lake.namespace)
    assert (good.exit_code, "all is well" in good.output) == (0, True)
    part = next(
        key for key in world.lake.keys("_lakefs/retention/gc/dredge/index/parts/") if "addresses" in key
    )
    world.lake.objects.put(part, b"damaged")
    bad = ask("index", "verify", world.lake.namespace, "--json")
    assert bad.exit_code == 1
    assert len(json.loads(bad.output)["damaged_parts"]) == 1
    assert "1 ranges were decoded again" in ask("index", "rebuild", world.lake.namespace).output
    good = ask("index", "verify", world.lake.namespace, "--against-ranges", "--json")
    assert (good.exit_code, json.loads(good.output)["good"]) == (0, True)
