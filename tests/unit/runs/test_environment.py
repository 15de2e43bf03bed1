"""Variables are set for a while, and what was there before comes back whatever happens."""

from __future__ import annotations

import os

import pytest

from dredge.runs.environment import environment


def test_variables_are_there_within_and_afterwards_it_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DREDGE_TEST_KEPT", "before")
    monkeypatch.delenv("DREDGE_TEST_NEW", raising=False)
    before = dict(os.environ)

    @environment({"DREDGE_TEST_KEPT": "within", "DREDGE_TEST_NEW": "secret"})
    def work() -> None:
        assert dict(os.environ) == {**before, "DREDGE_TEST_KEPT": "within", "DREDGE_TEST_NEW": "secret"}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert dict(os.environ) == before
    with environment({"DREDGE_TEST_NEW": "secret"}):
        del os.environ["DREDGE_TEST_NEW"]
    assert dict(os.environ) == before
