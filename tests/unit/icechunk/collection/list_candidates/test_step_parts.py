"""What is listed, with which settings, and what becomes of the results."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.list_candidates.step import _refuse_absent
from dredge.icechunk.collection.run import Run
from dredge.runs.perform import StepRecord
from dredge.runs.tries import StepTry
from tests.support.icechunk_repo import Repo

KINDS = ["snapshots", "transactions", "manifests", "chunks"]


@pytest.fixture
def run(v1: Repo) -> Run:
    return v1.plan()


@pytest.fixture
def record(run: Run) -> StepRecord:
    return StepRecord({}, StepTry(run.folder.writer, "list_candidates", 1))


@pytest.mark.parametrize("kind", KINDS)
def test_live_snapshots_and_manifests_must_all_be_listed(run: Run, record: StepRecord, kind: str) -> None:
    record.counts.update({f"{other}_absent": int(other == kind) for other in KINDS})
    if kind in ("snapshots", "manifests"):
        with pytest.raises(FormatError, match=f"{kind}/"):
            _refuse_absent(run, record)
    else:
        _refuse_absent(run, record)
