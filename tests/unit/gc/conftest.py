"""What several rooms' tests share."""

import pytest


@pytest.fixture
def without_canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a lake as small as these, they would notice each loss; in a large one they are a few of many."""
    monkeypatch.setattr("dredge.gc.check_limits.canaries.sample", lambda *_, **__: [])
    monkeypatch.setattr("dredge.gc.verify.sample", lambda *_, **__: [])
