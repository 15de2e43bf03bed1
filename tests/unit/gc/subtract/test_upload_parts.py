"""Parts of uploads, which lakeFS keeps as objects on Google Cloud Storage, stay as long as the upload may go on."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from dredge.gc.run import Plan
from dredge.gc.slice_listing import LISTED
from dredge.gc.subtract.candidates import Uploads, going_on, targets_of
from dredge.hashing import hash64
from dredge.storage import open_writer
from tests.support.gc import make_world
from tests.support.gcs import GcsServer
from tests.support.gcs_lakes import GcsBucket, client_of, collected, contents, planted
from tests.support.lakefs_server import lakefs_server
from tests.support.s3_gateway import s3_client

XID = "data/gdt8vkc9mbu0q3mpv0m0/cv9tml5b8q0s73b2c1i0"
PIECES = (
    f"{XID}.multipart",
    f"{XID}.part_00001",
    f"{XID}.part_10000",
    f"{XID}.part_00001_1",
    f"{XID}.part_00001_1_2",
)
"""Names as a real server writes them: a marker, parts, and parts put together in one layer and in two."""
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsServer]:
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    with GcsServer() as server:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.url)
        yield server


def rows(ages: dict[str, timedelta]) -> pa.Table:
    names = pa.array(ages, pa.string())
    times = pa.array([NOW - age for age in ages.values()], pa.timestamp("us", tz="UTC"))
    columns = [names, pa.array([1] * len(ages), pa.int64()), times, pa.nulls(len(ages), pa.string())]
    columns += [pa.array(hash64(names)), pa.nulls(len(ages), pa.string())]
    return pa.Table.from_arrays(columns, schema=LISTED)


def aged(server: GcsServer, uri: str, name: str, age: timedelta) -> None:
    """Make an object as old as that, by the store's time."""
    found = server.buckets[uri.split("/")[2]].live[name]
    found.updated = (datetime.now(UTC) - age).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_names_of_pieces_are_known_and_no_others() -> None:
    others = [
        XID,
        f"{XID}.part_1",
        f"{XID}.part_00001x",
        f"{XID}.part_00001_",
        f"{XID}.multipart.x",
        "data/.part",
    ]
    found = targets_of(pa.array([*PIECES, *others, f"{XID}\n.part_00001"]))
    assert found.to_pylist() == [XID] * len(PIECES) + [None] * len(others) + [f"{XID}\n"]


def test_only_a_run_on_google_cloud_storage_holds_parts() -> None:
    plan = make_world().plan().plan
    assert Uploads.of(plan) is None

    def on(namespace: str, **config: float) -> Plan:
        return replace(plan, namespace=namespace, config=replace(plan.config, **config))

    assert Uploads.of(on("s3://bucket/lake")) is None
    for scheme in ("gs", "gcs", "GS"):
        found = Uploads.of(on(f"{scheme}://bucket/lake"))
        assert found is not None
        assert plan.created_at - found.since == timedelta(days=7)
    assert Uploads.of(on("gs://bucket/lake", multipart_idle_hours=0)) is None


def test_one_new_piece_holds_all_of_its_upload_and_nothing_of_another(server: GcsServer) -> None:
    uri = server.bucket()
    uploads = Uploads(uri=uri, since=NOW - timedelta(days=7))
    ages = {name: timedelta(days=9) for name in PIECES} | {f"{XID}.part_00002": timedelta(days=2)}
    other = {f"{XID}0.part_00001": timedelta(days=9), f"{XID[:-1]}.part_00001": timedelta(days=9)}
    assert going_on(uploads, rows(ages | other), 2).to_pylist() == [XID]
    assert len(server.requests) == 2  # the store is asked about the others alone


def test_an_upload_whose_new_parts_are_too_young_for_the_listing_goes_on(server: GcsServer) -> None:
    uri = server.bucket()
    uploads = Uploads(uri=f"{uri}/lake", since=datetime.now(UTC) - timedelta(days=7))
    writer = open_writer(f"{uri}/lake", server.options)
    for name in (f"{XID}.part_00001", f"{XID}.part_00002", f"{XID}.x", f"{XID}0.part_00001"):
        writer.put(name, b"part")
    old = timedelta(days=9)
    for name in (f"{XID}.part_00001", f"{XID}.part_00002"):
        aged(server, uri, f"lake/{name}", old)
    assert going_on(uploads, rows({f"{XID}.part_00001": old + timedelta(days=365)}), 2).to_pylist() == []
    aged(server, uri, f"lake/{XID}.part_00002", timedelta(minutes=1))
    assert going_on(uploads, rows({f"{XID}.part_00001": old + timedelta(days=365)}), 2).to_pylist() == [XID]


def test_a_long_upload_keeps_its_parts_and_one_that_was_given_up_loses_them(
    server: GcsServer, tmp_path: Path
) -> None:
    """All of them are older than the minimum age, by which alone the parts of the one that goes on would go, too."""
    bucket = GcsBucket(server.options, server.bucket())
    given_up = XID.replace("c1i0", "c1ig")
    with lakefs_server(tmp_path, bucket=bucket) as lake:
        repository, staying = planted(lake)
        for target in (XID, given_up):
            for name in PIECES:
                lake.writer().put(name.replace(XID, target), b"a part")
                aged(server, bucket.uri, f"lake/{name.replace(XID, target)}", timedelta(days=9))
        aged(server, bucket.uri, f"lake/{XID}.part_10000", timedelta(days=6))
        run = collected(client_of(lake))
        left = contents(bucket)
        assert left.keys() >= set(PIECES)
        assert not [name for name in left if name.startswith(given_up)]
        for path, data in staying.items():
            assert repository.branch("main").object(path).reader(mode="rb").read() == data
        (held,) = [
            item for item in run.folder.read_json("report.json")["held"] if item["code"] == "upload_parts"
        ]
        assert (held["objects"], "part of an upload" in held["why"]) == (len(PIECES), True)

        aged(server, bucket.uri, f"lake/{XID}.part_10000", timedelta(days=8))
        collected(client_of(lake))
        assert not [name for name in contents(bucket) if name.startswith(XID)]


def test_an_upload_to_the_embedded_lakefs_goes_on_after_a_collection(
    server: GcsServer, tmp_path: Path
) -> None:
    """Its parts are no objects."""
    bucket = GcsBucket(server.options, server.bucket())
    with lakefs_server(tmp_path, bucket=bucket) as lake:
        planted(lake)
        s3, place = s3_client(lake), {"Bucket": "lake", "Key": "main/long"}
        upload = place | {"UploadId": s3.create_multipart_upload(**place)["UploadId"]}
        parts, data = [], (b"1" * (5 << 20), b"2")
        for number, piece in enumerate(data, 1):
            etag = s3.upload_part(**upload, PartNumber=number, Body=piece)["ETag"]
            parts.append({"PartNumber": number, "ETag": etag})
            collected(client_of(lake))
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
        collected(client_of(lake))
        assert s3.get_object(**place)["Body"].read() == b"".join(data)


@pytest.mark.parametrize(("microseconds", "is_new"), [(0, True), (1, False)])
def test_a_part_that_was_written_at_the_last_moment_needs_no_look_at_the_store(
    microseconds: int, is_new: bool
) -> None:
    uploads = Uploads(uri="memory://nowhere/lake", since=NOW - timedelta(days=7))
    found = going_on(uploads, rows({PIECES[1]: timedelta(days=7, microseconds=microseconds)}), 1)
    assert found.to_pylist() == ([XID] if is_new else [])
