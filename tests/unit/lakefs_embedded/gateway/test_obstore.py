"""The S3 client that Dredge itself uses for bytes works on the gateway too."""

from typing import Any

import obstore
import pytest
from obstore.store import S3Store

from dredge.storage import StorageOptions, open_reader, open_writer
from tests.support.lakefs_server import Lake

BIG = bytes(range(256)) * 4096 * 12  # 12 MiB: obstore sends it in parts


@pytest.fixture
def store(lake: Lake, repo: str) -> Any:
    return S3Store(
        repo,
        prefix="main",
        endpoint=lake.server.url,
        region="us-east-1",
        access_key_id=lake.server.access_key_id,
        secret_access_key=lake.server.secret_access_key,
        virtual_hosted_style_request=False,
        client_options={"allow_http": True},
        retry_config={"max_retries": 0},
    )


@pytest.mark.parametrize("key", ["a", "a b+c%20d", "ü/日本", "x&y=<z>", "deep/er/path"])
def test_put_get_head_list_copy_delete(store: Any, key: str) -> None:
    obstore.put(store, key, b"content", attributes={"Content-Type": "text/x", "colour": "blue"})
    found = obstore.get(store, key, options={"range": (2, 5)})
    assert bytes(found.bytes()) == b"nte"
    assert found.attributes["colour"] == "blue"
    assert obstore.head(store, key)["size"] == 7
    obstore.copy(store, key, "copied")
    assert bytes(obstore.get(store, "copied").bytes()) == b"content"
    assert sorted(item["path"] for item in obstore.list(store).collect()) == sorted([key, "copied"])
    level = obstore.list_with_delimiter(store)
    assert len(level["objects"]) + len(level["common_prefixes"]) == 2
    obstore.delete(store, [key, "copied"])
    assert obstore.list(store).collect() == []


def test_a_large_object_goes_in_parts_and_comes_back_in_ranges(store: Any) -> None:
    obstore.put(store, "big", BIG, use_multipart=True, chunk_size=5 << 20)
    assert bytes(obstore.get(store, "big").bytes()) == BIG
    ranges = obstore.get_ranges(store, "big", starts=[5, 6_000_000], lengths=[10, 20])
    assert [bytes(each) for each in ranges] == [BIG[5:15], BIG[6_000_000:6_000_020]]


def test_dredges_own_storage_works_on_a_branch(lake: Lake, repo: str) -> None:
    options = StorageOptions(
        endpoint_url=lake.server.url,
        region="us-east-1",
        access_key_id=lake.server.access_key_id,
        secret_access_key=lake.server.secret_access_key,
    )
    writer = open_writer(f"s3://{repo}/main/lake", options)
    names = ["a", "a//b", "b c+d", "ü/1", "z/"]
    for name in names:
        writer.put(name, name.encode())
    writer.put_stream("big", iter([BIG[:1000], BIG[1000:]]))
    reader = open_reader(f"s3://{repo}/main/lake", options)
    assert dict(reader.get_many(names)) == {name: name.encode() for name in names}
    listed = [key for batch in reader.list() for key in batch["key"].to_pylist()]
    assert listed == sorted([*names, "big"])
    assert reader.get("big") == BIG
    assert reader.list_level().folders == ["a/", "z/", "ü/"]
    assert reader.stat("a").etag == "0cc175b9c0f1b6a831c399e269772661"
