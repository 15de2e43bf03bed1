"""S3 in its kinds: other makers' stores, buckets that are none, who pays, addresses, authorities, proxies."""

import re
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from dredge.errors import ConfigError, FormatError, RefusedError
from dredge.storage import (
    StorageOptions,
    open_copier,
    open_deleter,
    open_reader,
    open_versions,
    open_writer,
    store_clock,
)
from dredge.storage.location import parse_uri
from dredge.storage.probe import LIST, ORDER, demand_conditions, probe
from dredge.storage.s3.deleting import S3Deleter
from lakefs_embedded.catalog.signing import sign_url
from tests.support.failing import make_certificate
from tests.support.objectstore import Answer, ScriptedS3, make_bucket

NO_VERSIONS = (200, "<VersioningConfiguration/>")
NOT_KNOWN = (501, "<Error><Code>NotImplemented</Code><Message>words</Message></Error>")


@pytest.mark.parametrize(
    "bucket",
    [
        "logs--use1-az4--x-s3",
        "shop-mfzwi23gnjvgw--ol-s3",
        "mfzwi23gnjvgw.mrap",
        "arn:aws:s3:us-east-1:123456789012:accesspoint",
    ],
)
def test_what_is_no_bucket_to_collect_in_is_refused_before_anything_is_touched(bucket: str) -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        raise AssertionError("nothing is asked")

    uri = f"s3://{bucket}/lake"
    with ScriptedS3(answer) as server:
        for opener in (open_reader, open_writer, open_deleter, open_versions):
            with pytest.raises(ConfigError):
                opener(uri, server.options)
        with pytest.raises(ConfigError):
            open_copier("s3://plain/lake", uri, server.options)
        assert server.requests == []


@pytest.mark.parametrize("keys", [("b", "a"), ("a", "a"), ("a", "c", "b")])
def test_a_store_that_lists_in_another_order_is_refused(keys: tuple[str, ...]) -> None:
    rows = "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-11-01T00:00:00Z</LastModified><Size>1</Size></Contents>"
        for key in keys
    )
    page = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
    with ScriptedS3(lambda *_: (200, page)) as server, pytest.raises(FormatError, match="order"):
        list(open_reader("s3://bkt", server.options).list())


def by_folders(key: str) -> list[str]:
    return key.split("/")


@pytest.mark.parametrize(("order", "is_refused"), [(str, False), (str.lower, True), (by_folders, True)])
def test_the_order_of_listings_is_tried_before_the_first_run(
    order: Callable[[str], Any], is_refused: bool
) -> None:
    keys = set[str]()

    def answer(method: str, path: str, body: bytes) -> Answer:
        parts = urlsplit(path)
        if method == "PUT":
            keys.add(unquote(parts.path).removeprefix("/bkt/"))
            return 200, ""
        if method == "POST":
            gone = re.findall("<Key>(.*?)</Key>", body.decode())
            keys.difference_update(gone)
            rows = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in gone)
            return 200, f"<DeleteResult>{rows}</DeleteResult>"
        (prefix,) = parse_qs(parts.query).get("prefix", [""])
        rows = "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-11-01T00:00:00Z</LastModified><Size>1</Size></Contents>"
            for key in sorted(keys, key=order)
            if key.startswith(prefix)
        )
        return 200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"

    with ScriptedS3(answer) as server:
        found = probe("s3://bkt/lake", "x", server.options)
    assert LIST not in found.refused
    assert (ORDER in found.refused) is is_refused
    assert (keys, found.left) == (set(), "")


def test_a_good_store_is_left_as_it_was(moto_options: StorageOptions) -> None:
    uri = f"{make_bucket(moto_options).uri}/lake"
    assert probe(uri, "x", moto_options).refused == {}
    assert list(open_reader(uri, moto_options).list()) == []


def test_a_store_without_bulk_deletes_gets_a_request_for_each_key() -> None:
    def answer(method: str, path: str, body: bytes) -> Answer:
        if "?delete" in path:
            return NOT_KNOWN
        if method == "DELETE":
            return (403, "<Error><Code>AccessDenied</Code></Error>") if path.endswith("/held") else (204, "")
        return NO_VERSIONS

    with ScriptedS3(answer) as server:
        location = parse_uri("s3://bkt/lake", server.options)
        outcomes = S3Deleter(location, server.options).delete(["a", "held", "b"])
        assert [item.outcome for item in outcomes] == ["deleted", "failed", "deleted"]
        single = [path for method, path, _ in server.requests if method == "DELETE"]
        assert single == ["/bkt/lake/a", "/bkt/lake/held", "/bkt/lake/b"]
        alone = S3Deleter(location, server.options)
        assert [item.outcome for item in alone.delete(["a"])] == ["deleted"], "also where it is the first one"
        assert not alone.has_bulk


def test_a_store_that_overlooks_conditions_is_refused(moto_options: StorageOptions) -> None:
    kept = open_writer(f"{make_bucket(moto_options).uri}/state", moto_options)
    store_clock(kept, "")
    demand_conditions(kept)
    with ScriptedS3(lambda *_: (200, "")) as server, pytest.raises(RefusedError):
        demand_conditions(open_writer("s3://bkt/state", server.options))


def test_a_store_that_knows_no_conditions_is_refused_and_not_asked_again() -> None:
    with ScriptedS3(lambda *_: NOT_KNOWN) as server:
        with pytest.raises(RefusedError):
            demand_conditions(open_writer("s3://bkt/state", server.options))
        assert len(server.requests) == 1


def test_a_store_that_refuses_the_writer_says_that_and_nothing_of_conditions() -> None:
    denied = (403, "<Error><Code>AccessDenied</Code></Error>")
    with ScriptedS3(lambda *_: denied) as server, pytest.raises(ConfigError, match="AccessDenied"):
        demand_conditions(open_writer("s3://bkt/state", server.options))


def test_every_request_says_who_pays() -> None:
    with ScriptedS3(lambda *_: (200, "")) as server:
        options = replace(server.options, requester_pays=True)
        assert StorageOptions.from_env(options.to_env()) == options
        writer = open_writer("s3://bkt/lake", options)
        writer.put("plain", b"x")
        writer.put("odd//name", b"x")
        writer.put_if_absent("a", b"x")
        writer.get("odd//name")
        open_versions("s3://bkt/lake", options).versioning()
        assert len(server.headers) == 5
        assert {each.get("x-amz-request-payer") for each in server.headers} == {"requester"}


@pytest.mark.parametrize(
    ("style", "begins"), [("path", "https://s3.host:9/bkt/"), ("virtual", "https://bkt.s3.host:9/")]
)
def test_buckets_are_named_in_the_path_or_in_the_host(style: str, begins: str) -> None:
    env = {"AWS_ENDPOINT_URL": "https://s3.host:9", "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
    options = StorageOptions.from_env({**env, "AWS_S3_ADDRESSING_STYLE": style, "AWS_REGION": "r"})
    writer = open_writer("s3://bkt/lake", options)
    url = sign_url(writer, "a", 60)
    assert url is not None
    assert url.startswith(begins)
    assert StorageOptions.from_env(options.to_env()) == options


def test_both_clients_trust_a_private_authority_where_they_are_told(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(tmp_path))
    with ScriptedS3(lambda *_: (200, ""), tls=context) as server:
        trusting = open_writer("s3://bkt/lake", replace(server.options, ca_bundle=str(tmp_path / "ca.pem")))
        trusting.put("plain", b"x")  # by the one client
        trusting.put("odd//name", b"x")  # by the other
        assert [path for _, path, _ in server.requests] == ["/bkt/lake/plain", "/bkt/lake/odd//name"]
        with pytest.raises(ConfigError, match="SSL"):
            open_reader("s3://bkt/lake", server.options).get("odd//name")
        assert len(server.requests) == 2
