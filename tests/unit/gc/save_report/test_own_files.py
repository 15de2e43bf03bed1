"""The deleter of Dredge's own files takes their names and no other."""

import pytest

from dredge.errors import RefusedError
from dredge.gc.save_report import clean_up
from dredge.gc.save_report.clean_up import ROOT, own_files_deleter
from dredge.runs.lease import LEASE
from dredge.runs.versions import POINTER
from tests.support.gc import make_world

RUN_ID = "g3rvmqo31hnb8qbho500"
OWN_FILES = [
    "dredge/counted/x.counts",
    "dredge/state/versions/x.json",
    "dredge/state/distrusted/x.json",
    "dredge/index/parts/x.addresses.parquet",
    "dredge/index/manifests/x.parquet",
    "dredge/index/checkpoints/x.parquet",
    f"unified/{RUN_ID}/plan.json",
    f"dredge/purges/{RUN_ID}/plan.json",
    f"dredge/metadata/{RUN_ID}/metadata/t001/garbage-00000.parquet",
    f"unified/{RUN_ID}/listing/t001/part-00000.parquet",
]
OTHERS = [
    "",
    "data/slice/object",
    "/data/slice/object",
    "../../../data/slice/object",
    f"unified/{RUN_ID}/../../../../../data/slice/object",
    f"unified/{RUN_ID}/../../dredge/{LEASE}",
    "dredge/counted/../../../../../data/slice/object",
    "dredge/counted//x",
    f"dredge/{LEASE}",
    f"dredge/{POINTER}",
    "dredge/state/versions/",
    "dredge/counted",
    "dredge/paths/d/index/parts/x",
    "dredge/.dredge-clock",
    "rules/config.json",
    f"commits/run_id={RUN_ID}/commits.csv",
    f"uncommitted/{RUN_ID}/x",
    f"addresses/{RUN_ID}/x",
    f"unified/{RUN_ID}",
    f"unified/{RUN_ID}/",
    "unified/not-a-run/plan.json",
    "dredge/purges/not-a-run/plan.json",
    f"unified/{RUN_ID}/quarantine/data/slice/object",
    f"dredge/metadata/{RUN_ID}/quarantine/_lakefs/x",
    f"dredge/pins/{RUN_ID}/x/y",
    "unified/plan.json",
    f"unified//{RUN_ID}/plan.json",
    f"x/unified/{RUN_ID}/plan.json",
]


def test_the_deleter_takes_the_names_of_own_files_and_no_other() -> None:
    world = make_world()
    for key in [*OWN_FILES, *(other for other in OTHERS if clean_up.is_plain(other) and other)]:
        world.lake.objects.put(f"{ROOT}/{key}", b"x")
    kept = world.orphan("data/slice/object")
    before = set(world.lake.keys(""))
    deleter = own_files_deleter(world.lake.namespace)
    for other in OTHERS:
        with pytest.raises(RefusedError, match="own files"):
            deleter.delete([*OWN_FILES, other])
    assert set(world.lake.keys("")) == before
    deleter.delete(OWN_FILES)
    assert before - set(world.lake.keys("")) == {f"{ROOT}/{key}" for key in OWN_FILES}
    assert kept in world.data()
