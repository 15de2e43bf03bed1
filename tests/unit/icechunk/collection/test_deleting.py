"""Tasks of the sweep."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from dredge.errors import FormatError
from dredge.icechunk.collection.deleting import DeleteConfig, DeleteTask, delete_parts
from dredge.icechunk.collection.list_candidates.listing import write_candidates
from dredge.icechunk.collection.outputs import ListCandidatesOutput
from dredge.icechunk.collection.run import Run
from dredge.runs import ledger
from dredge.runs.gate import GateConfig, write_look
from dredge.runs.payload import PartInfo
from dredge.runs.tasks import Stores, WorkerRun
from dredge.runs.tries import StepTry
from dredge.sets.hashes import NONE, write_hashes
from dredge.storage import store_clock
from dredge.storage.listing_schema import LISTING_SCHEMA
from tests.support.icechunk_repo import Repo


def in_a_worker(run: Run) -> WorkerRun:
    attempt = StepTry.newest(run.folder.writer, "bulk_delete").named
    stores = Stores(
        run_uri=run.folder.uri,
        run_id=run.plan.run_id,
        attempt=attempt,
        store_uri=run.plan.uri,
        state_uri=run.state.uri,
        progress="x",
    )
    return WorkerRun.open(stores, "x")


def config(run: Run, alive: dict[str, PartInfo]) -> DeleteConfig:
    watch = "bulk_delete/_watch/001.json"
    gate = GateConfig(lease=run.plan.lease, watch=watch, trusted_seconds=0, silence_seconds_max=60)
    return DeleteConfig(gate=gate, delete_keys=10, alive=alive, pinned=(), undo="off", begun=True)


def test_candidates_outside_their_folder_are_never_deleted(repo: Repo) -> None:
    run = repo.guarded()
    summary = run.folder.read_summary(ListCandidatesOutput.STEP)
    assert summary is not None
    part = ListCandidatesOutput.of(summary).candidates("snapshots")[0]
    with pytest.raises(FormatError, match="chunks/"):
        delete_parts.body(
            in_a_worker(run), config(run, {}), DeleteTask(kinds=["chunks"], parts={"chunks": [part]})
        )


@pytest.mark.parametrize("name", ["README.txt", "0" * 19 + "1", "o" * 20, "deeper/" + "0" * 20, ""])
def test_candidate_that_is_no_id_is_never_swept(v1: Repo, name: str) -> None:
    run = v1.listed()
    (v1.folder / "chunks" / "deeper").mkdir()
    row = [f"chunks/{name}", 0, datetime(2020, 1, 1, tzinfo=UTC), None]
    columns = dict(zip(LISTING_SCHEMA.names, ([one] for one in row), strict=True))
    (part,) = write_candidates(run.folder, "chunks", 9999, [pa.table(columns, schema=LISTING_SCHEMA)], 10)
    alive = write_hashes(run.folder, "bulk_delete/_alive/none.ids", NONE)
    write_look(run.folder, "bulk_delete/_watch/001.json", True, "", store_clock(run.state, ""))
    task = DeleteTask(kinds=["chunks"], parts={"chunks": [part]})
    delete_parts.body(in_a_worker(run), config(run, {"chunks": alive}), task)
    rows = ledger.best(ledger.read_raw(run.folder, ledger.part_stem(part)))
    assert rows["outcome"].to_pylist() == [ledger.KEPT]
