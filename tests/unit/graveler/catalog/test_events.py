"""What hooks are told about a change, and in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dredge.graveler.catalog.events import Event, EventType, HookedChange
from tests.support.lakes import make_lake


class Recording:
    """Hooks that write down what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[Event, str | None]] = []

    def before(self, event: Event) -> str:
        self.told.append((event, None))
        return f"run {len(self.told)}"

    def after(self, event: Event, run_before: str) -> None:
        self.told.append((event, run_before))


@pytest.mark.parametrize("before", [each for each in EventType if each.startswith("pre-")])
def test_each_event_before_a_change_has_one_after_it(before: EventType) -> None:
    assert before.afterwards == "post-" + before.removeprefix("pre-")
    assert before.concerns_tag is before.endswith("tag")


def test_a_change_that_is_tried_again_asks_again_and_the_last_run_has_approved_it() -> None:
    lake = make_lake()
    made = lake.catalog.commits.get_commit(lake.repository, "main")
    repository = lake.catalog.repositories.get_repository(lake.repository)
    hooks = Recording()
    event = Event(EventType.PRE_MERGE, repository, "source", "main", merge_source="side")
    change = HookedChange(hooks, event)
    change.before(made)
    change.before(made, with_id=True)
    change.after(made)
    first = replace(event, commit=made)
    second = replace(first, commit_id=made.id)
    after = replace(second, type=EventType.POST_MERGE, source=made.id)
    assert hooks.told == [(first, None), (second, None), (after, "run 2")]
