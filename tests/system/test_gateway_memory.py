"""Bodies pass through the S3 gateway of a real server process; they are never held in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import urllib3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config

pytestmark = pytest.mark.system

SIZE = 96 << 20
PIECE = bytes(range(256)) * 4096  # 1 MiB
GROWTH_MAX_MIB = 24  # a body that is held would take 96, and a part of an upload 32


class Server:
    """`dredge serve` as a process, and how much memory it takes."""

    def __init__(self, folder: Path) -> None:
        code = "from dredge.cli import main; main()"
        command = [sys.executable, "-c", code, "serve", "--data", str(folder)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "LAKECTL_"))}
        self.process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--json"], env=clean, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        secrets = json.loads((folder / "server.json").read_text())
        key = secrets["access_key_id"], secrets["secret_access_key"]
        with urllib3.PoolManager() as pool:
            made = pool.request(
                "POST",
                f"{ready['endpoint']}/repositories",
                json={"name": "shop", "storage_namespace": f"local://{folder}/objects/shop"},
                headers=urllib3.make_headers(basic_auth=":".join(key)),
            )
            assert made.status == 201
        self.s3: Any = boto3.client(
            "s3",
            endpoint_url=ready["endpoint"].removesuffix("/api/v1"),
            region_name="us-east-1",
            aws_access_key_id=key[0],
            aws_secret_access_key=key[1],
            config=Config(s3={"addressing_style": "path"}, read_timeout=300),
        )

    def growth(self, work: Callable[[], Any]) -> float:
        proc = Path(f"/proc/{self.process.pid}")
        (proc / "clear_refs").write_text("5")  # the peak begins anew at the present size
        before = self._status(proc, "VmHWM")
        work()
        return (self._status(proc, "VmHWM") - before) / 1024

    @staticmethod
    def _status(proc: Path, name: str) -> int:
        found = re.search(rf"{name}:\s+(\d+) kB", (proc / "status").read_text())
        assert found is not None
        return int(found[1])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("lake"))
    try:
        running.s3.put_object(Bucket="shop", Key="main/warm", Body=PIECE)
        running.s3.get_object(Bucket="shop", Key="main/warm")["Body"].read()
        yield running
    finally:
        running.process.kill()
        running.process.communicate()


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "big"
    with path.open("wb") as file:
        for _ in range(SIZE // len(PIECE)):
            file.write(PIECE)
    return path


def test_an_upload_and_a_download_of_any_size_take_a_few_megabytes(server: Server, big: Path) -> None:
    def upload() -> None:
        with big.open("rb") as file:
            server.s3.put_object(Bucket="shop", Key="main/big", Body=file)

    def download() -> None:
        size = checksum = 0
        for piece in server.s3.get_object(Bucket="shop", Key="main/big")["Body"].iter_chunks(1 << 20):
            size += len(piece)
            checksum = zlib.crc32(piece, checksum)
        assert (size, checksum) == (SIZE, zlib.crc32(big.read_bytes()))

    assert server.growth(upload) < GROWTH_MAX_MIB
    assert server.growth(download) < GROWTH_MAX_MIB


def test_parts_and_copies_take_a_few_megabytes(server: Server, big: Path) -> None:
    config = TransferConfig(multipart_chunksize=32 << 20, max_concurrency=3)
    assert server.growth(lambda: server.s3.upload_file(str(big), "shop", "main/parts", Config=config)) < (
        GROWTH_MAX_MIB
    )

    def copy() -> None:
        server.s3.copy_object(
            Bucket="shop", Key="main/copy", CopySource="shop/main/parts", MetadataDirective="REPLACE"
        )

    assert server.growth(copy) < GROWTH_MAX_MIB
    assert server.s3.head_object(Bucket="shop", Key="main/copy")["ContentLength"] == SIZE
