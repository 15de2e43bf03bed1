"""Only what runs wrote for themselves may be removed, whoever asks."""

from __future__ import annotations

import pytest

from dredge.errors import RefusedError
from dredge.icechunk.collection.own_files import is_own_file, own_files_deleter
from tests.support.icechunk_tasks import Task

XID = "g3qikmu3ee6io01hg8o0"
OWN = [
    *("counted/x-0000.counts", "state/versions/x.json", "state/distrusted/x.json"),
    *("index/parts/x.ids", "index/heads/x.json", "pins/x.json", f"pins/{XID}/x.u64"),
    *(
        f"runs/{XID}/plan.json",
        f"runs/{XID}/mark/t001/x.ids",
        f"expirations/{XID}/plan.json",
        f"purges/{XID}/x",
    ),
]
OTHERS = [
    *(
        "lease.json",
        "pending/current.json",
        "state/current.json",
        "state/pointer.json",
        "counted/",
        "counted/deeper/x",
        "pending/x",
    ),
    *("runs/x/plan.json", f"runs/{XID}", f"runs/{XID}/", "index/x", "pins/x/y/z", "chunks/x", ""),
    *("counted/../lease.json", f"runs/{XID}/../../lease.json", "../chunks/x", "counted//x", f"xruns/{XID}/x"),
]


@pytest.mark.parametrize("key", OWN)
def test_what_runs_write_for_themselves_is_their_own(key: str) -> None:
    assert is_own_file(key)


@pytest.mark.parametrize("key", OTHERS)
def test_everything_else_is_not(key: str) -> None:
    assert not is_own_file(key)


def test_nothing_goes_when_one_key_is_not_ones_own() -> None:
    task = Task("save_report")
    keys = [task.put(f"_dredge/{key}") for key in ("counted/x", "lease.json", "index/parts/y")]
    deleter = own_files_deleter(task.uri)
    with pytest.raises(RefusedError, match=r"lease\.json"):
        deleter.delete(["counted/x", "lease.json", "index/parts/y"])
    assert task.keys() == set(keys)
    assert [found.outcome for found in deleter.delete(["counted/x", "index/parts/y"])] == [
        "deleted",
        "deleted",
    ]
    assert task.keys() == {"_dredge/lease.json"}
