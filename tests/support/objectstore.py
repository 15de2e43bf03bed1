"""An S3 server in this process, for tests."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dredge.storage import StorageOptions


@dataclass(frozen=True)
class TestBucket:
    """A fresh bucket on a running server.

    Attributes:
        options: how to reach it.
        bucket: its name.
        client: a plain boto3 client, for what tests do behind the door's back.
    """

    __test__ = False

    options: StorageOptions
    bucket: str
    client: Any

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}"

    def keys(self, prefix: str = "") -> list[str]:
        """All keys, as an independent client sees them."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def put(self, *keys: str, data: bytes = b"x") -> None:
        for key in keys:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=data)


@contextmanager
def moto_server() -> Iterator[StorageOptions]:
    """Run moto's S3 server on a free port."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield StorageOptions(
            endpoint_url=f"http://{host}:{port}",
            region="us-east-1",
            access_key_id="AKIAIOSFODNN7EXAMPLE",
            secret_access_key="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        )
    finally:
        server.stop()


def make_bucket(options: StorageOptions, versioned: bool = False) -> TestBucket:
    """Make a bucket with a name of its own."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=options.endpoint_url,
        region_name=options.region,
        aws_access_key_id=options.access_key_id,
        aws_secret_access_key=options.secret_access_key,
    )
    name = f"lake-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    if versioned:
        client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    return TestBucket(options, name, client)


@contextmanager
def moto_s3() -> Iterator[TestBucket]:
    """Run a server with one fresh bucket."""
    with moto_server() as options:
        yield make_bucket(options)
