"""An embedded lakeFS for tests: a pytest fixture, and its parts.

    # conftest.py
    pass

    # test_etl.py
    def test_etl(lakefs_server):
        lakefs_server.create_repository("shop")
        client = lakefs.Client(**lakefs_server.credentials)            # the `lakefs` package
        s3 = boto3.client("s3", **lakefs_server.boto3_arguments)       # s3://shop/main/…

A server starts in about 50 ms, keeps its metadata in memory and its objects in the test's folder, and stops after
the test. Scope and limits: docs/embedded.md.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakefs_embedded.server import ServerSettings, ThreadedServer

__all__ = ["EmbeddedLakeFS", "lakefs_server", "run_lakefs"]


@dataclass(frozen=True, slots=True)
class EmbeddedLakeFS:
    """A running server and its addresses; `server` has `.catalog`, and `.faults` to fail requests on purpose."""

    server: ThreadedServer

    @property
    def url(self) -> str:
        """`http://host:port`: the endpoint for S3 clients."""
        return self.server.url

    @property
    def endpoint(self) -> str:
        """The API's address, as lakeFS's clients expect it."""
        return self.server.endpoint

    @property
    def credentials(self) -> Mapping[str, str]:
        """Arguments of `lakefs.Client` and of `lakefs_sdk.Configuration`: the administrator's."""
        return {
            "host": self.endpoint,
            "username": self.server.access_key_id,
            "password": self.server.secret_access_key,
        }

    @property
    def boto3_arguments(self) -> Mapping[str, str]:
        """Arguments of `boto3.client("s3", …)`; a bucket is a repository, a key `<branch>/<path>`."""
        return {
            "endpoint_url": self.url,
            "aws_access_key_id": self.server.access_key_id,
            "aws_secret_access_key": self.server.secret_access_key,
            "region_name": "us-east-1",
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for lakectl and for clients in other processes."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.endpoint,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": self.server.access_key_id,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": self.server.secret_access_key,
        }

    def create_repository(self, name: str = "lake", default_branch: str = "main") -> str:
        """Create a repository in a new folder. Returns its storage namespace."""
        namespace = f"local://{name}"
        self.server.catalog.repositories.create_repository(name, namespace, default_branch=default_branch)
        return namespace


@contextmanager
def run_lakefs(folder: str | os.PathLike[str], **settings: Any) -> Iterator[EmbeddedLakeFS]:
    """Run a server, for a fixture of another scope or with other settings.

    Args:
        folder: for objects; created if missing.
        settings: of `lakefs_embedded.server.ServerSettings`, such as `kv_url="sqlite:///…"`,
            `defects=frozenset({"empty_last_page"})` or `catalog=Settings(profile="design")`.
    """
    base = Path(folder).absolute()
    base.mkdir(parents=True, exist_ok=True)
    defaults = {"listen": "127.0.0.1:0", "local_base": str(base)}
    with ThreadedServer(ServerSettings(**(defaults | settings))) as server:
        yield EmbeddedLakeFS(server)


@pytest.fixture
def lakefs_server(tmp_path: Path) -> Iterator[EmbeddedLakeFS]:
    """A fresh server for one test."""
    with run_lakefs(tmp_path / "lakefs") as running:
        yield running
