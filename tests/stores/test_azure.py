"""Azure Blob Storage on its emulator: what only this kind of store has."""

import os
import signal
import urllib.request
import warnings
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dredge.errors import ConfigError, ConflictError, FormatError, NotFoundError
from dredge.storage import StorageOptions, open_copier, open_deleter, open_reader, open_writer
from dredge.storage.azure import clients, deleting
from dredge.storage.azure import deleting as copying
from dredge.storage.options import AzureOptions
from lakefs_embedded.catalog.signing import sign_url
from tests.support.azure import ACCOUNT, KEY, TestContainer, copy_in_blocks, make_container

pytestmark = pytest.mark.stores


@pytest.fixture
def container(azure_options: StorageOptions) -> TestContainer:
    return make_container(azure_options)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_copy_keeps_what_is_known_of_the_object(
    container: TestContainer, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.storage.blob import ContentSettings, StandardBlobTier

    if in_blocks:
        copy_in_blocks(monkeypatch, 10, 400)
    content = bytes(range(250)) * 4
    container.client.upload_blob(
        "lake/data/a b%20",
        content,
        metadata={"who": "me"},
        content_settings=ContentSettings(content_type="application/x-parquet"),
        standard_blob_tier=StandardBlobTier.COOL,
    )
    copier = open_copier(f"{container.uri}/lake", f"{container.uri}/q", container.options)
    copied = copier.copy("data/a b%20", if_absent=True)
    found = container.client.get_blob_client("q/data/a b%20").get_blob_properties()
    assert (copied.size, found.metadata, found.blob_tier) == (1000, {"who": "me"}, "Cool")
    assert found.content_settings.content_type == "application/x-parquet"
    assert open_reader(f"{container.uri}/q", container.options).get("data/a b%20") == content
    with pytest.raises(ConflictError):
        copier.copy("data/a b%20", if_absent=True)


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_took_the_place_of_the_source_is_not_copied(
    container: TestContainer, in_blocks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if in_blocks:
        copy_in_blocks(monkeypatch, 1, 400)
    writer = open_writer(f"{container.uri}/lake", container.options)
    writer.put("k", b"what was listed")
    look = copying.check_source

    def late(*found: Any) -> None:
        look(*found)
        writer.put("k", b"somebody else's")

    monkeypatch.setattr(copying, "check_source", late)
    with pytest.raises(FormatError, match="nothing was copied"):
        open_copier(f"{container.uri}/lake", f"{container.uri}/q", container.options).copy("k")
    assert container.names() == ["lake/k"]


def test_copies_lead_through_the_account_and_not_out_of_it(container: TestContainer) -> None:
    other = make_container(container.options)
    open_writer(container.uri, container.options).put("k", b"x")
    assert open_copier(container.uri, f"{other.uri}/q", container.options).copy("k").size == 1
    with pytest.raises(ConfigError, match="inside a store"):
        open_copier(container.uri, "https://b.blob.core.windows.net/c", container.options)


def test_batches_take_what_they_are_told_and_nothing_else(
    container: TestContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deleting.AzureDeleter, "BATCH_KEYS", 8)
    names = [f"lake/data/ü {number:03d}#?" for number in range(14)]
    for name in [*names, "lake/data/stays", "lake/data"]:
        container.client.upload_blob(name, b"")
    snapshot = container.client.get_blob_client(names[7])
    snapshot.create_snapshot()
    requests: list[str] = []
    session = clients.container_client(container.options, container.uri, retries=False)
    sent = session._pipeline.run
    monkeypatch.setattr(
        session._pipeline,
        "run",
        lambda request, **more: (requests.append(request.method), sent(request, **more))[1],
    )
    deleter = open_deleter(f"{container.uri}/lake", container.options)
    keys = [name.removeprefix("lake/") for name in names] + ["data/missing"]
    found = deleter.delete(keys)
    assert [each.key for each in found] == keys
    assert found[-1].outcome == "missing"
    assert (found[7].outcome, found[7].code) == ("failed", "SnapshotsPresent")
    assert {each.outcome for each in found[:7] + found[8:-1]} == {"deleted"}
    assert container.names() == ["lake/data", "lake/data/stays", names[7]]
    assert requests == ["POST", "POST"]


def test_bytes_are_given_as_they_lie_there(container: TestContainer) -> None:
    from azure.storage.blob import ContentSettings

    packed = b"\x1f\x8bno gzip at all"
    container.client.upload_blob("k", packed, content_settings=ContentSettings(content_encoding="gzip"))
    assert open_reader(container.uri, container.options).get("k") == packed


def test_long_objects_are_read_as_one_object(
    container: TestContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(container.uri, container.options)
    writer.put("k", b"1" * (clients.PIECE_BYTES + 5))
    with writer.open_read("k") as stream:
        writer.put("k", b"2" * (clients.PIECE_BYTES + 5))
        with pytest.raises((ConflictError, ConfigError)):
            list(stream)


def test_signed_urls_let_others_in_for_one_object(container: TestContainer) -> None:
    writer = open_writer(f"{container.uri}/lake", container.options)
    url = sign_url(writer, "data/a b#?", 60, writes=True)
    assert url is not None
    request = urllib.request.Request(url, b"put", {"x-ms-blob-type": "BlockBlob"}, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
    assert writer.get("data/a b#?") == b"put"
    url = sign_url(writer, "data/a b#?", 60, "attachment; filename=name.txt")
    assert url is not None
    with urllib.request.urlopen(url) as answer:
        assert answer.read() == b"put"
        assert "filename" in answer.headers["Content-Disposition"]


def test_a_sas_token_is_enough_for_a_collection_and_never_shows(container: TestContainer) -> None:
    from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

    token = generate_account_sas(
        ACCOUNT,
        KEY,
        ResourceTypes(service=True, container=True, object=True),
        AccountSasPermissions(read=True, write=True, delete=True, list=True, add=True, create=True),
        datetime.now(UTC) + timedelta(hours=1),
    )
    signed = StorageOptions(azure=replace(container.options.azure, key=None, sas_token=token))
    writer = open_writer(f"{container.uri}/lake", signed)
    for key in ("a", "b"):
        writer.put(key, b"x")
    assert [batch["key"].to_pylist() for batch in writer.list()] == [["a", "b"]]
    assert open_copier(f"{container.uri}/lake", f"{container.uri}/q", signed).copy("a").size == 1
    deleter = open_deleter(f"{container.uri}/lake", signed)
    deleter._sleep = lambda _seconds: None  # type: ignore[attr-defined]
    outcomes = deleter.delete(["a", "b", "c"])
    # Nobody can tell what the first request did, so that what is not there counts as deleted by it.
    assert [each.outcome for each in outcomes] == ["deleted", "deleted", "deleted"]
    with pytest.raises(ConfigError, match="cannot be signed with a SAS"):
        sign_url(writer, "a", 60)
    wrong = StorageOptions(azure=replace(signed.azure, sas_token=token[:-6] + "AAAA%3D"))
    for store in (writer, open_writer(container.uri, wrong)):
        with pytest.raises((ConfigError, NotFoundError)) as caught:
            store.get("nothing")
        said = f"{caught.value!r} {caught.value.__cause__!r} {store!r}"
        assert "sig=" not in said
        assert token[-30:] not in said


def test_a_missing_container_and_a_wrong_key_are_settings_to_mend(container: TestContainer) -> None:
    gone = open_writer(f"{container.uri}x/lake", container.options)
    wrong = StorageOptions(
        azure=AzureOptions(ACCOUNT, "AAAA", endpoint_url=container.options.azure.endpoint_url)
    )
    for store in (gone, open_writer(container.uri, wrong)):
        for call in (
            lambda s=store: s.put("k", b""),
            lambda s=store: s.get("k"),
            lambda s=store: list(s.list()),
        ):
            with pytest.raises(ConfigError):
                call()


def test_a_child_of_a_process_that_used_azure_goes_on_by_itself(container: TestContainer) -> None:
    writer = open_writer(container.uri, container.options)
    writer.put("parent", b"1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        signal.alarm(30)
        try:
            writer.put("child", b"2")
            os._exit(0 if writer.get("parent") == b"1" else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert writer.get("child") == b"2"
