"""A running embedded lakeFS for tests, with clients for it and injected faults.

with lakefs_server(tmp_path) as lake:                      # memory KV, objects in a folder
    repository = lake.repository("shop")                   # created, high-level package
    lake.sdk.objects_api.stat_object("shop", "main", …)    # generated SDK

with lakefs_server(tmp_path, bucket=bucket, defects={"empty_last_page"}, clock=Clock(days=-30)) as lake: …
"""

import base64
import json
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlencode

import lakefs
import lakefs_sdk
import pytest
import urllib3
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.configuration import Configuration

from dredge.storage import ObjectWriter, StorageOptions, open_writer
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server import Credentials, FaultInjector, ServerSettings, ThreadedServer
from tests.support.objectstore import TestBucket

KEY_PAIR = Credentials("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")


class Clock:
    """A settable clock: the real one with an offset, or stopped."""

    def __init__(self, fixed: datetime | None = None, **offset: float) -> None:
        self.fixed = fixed
        self.offset = timedelta(**offset)

    def __call__(self) -> datetime:
        return (self.fixed or datetime.now(UTC)) + self.offset

    def advance(self, **step: float) -> None:
        """Advance (or turn back), as timedelta's arguments."""
        self.offset += timedelta(**step)


@dataclass(frozen=True)
class Lake:
    server: ThreadedServer  # with `.catalog`, `.kv`, `.faults`, `.endpoint`
    base: str  # URI that storage namespaces go below, without trailing slash
    clock: Clock  # the server's

    @cached_property
    def sdk(self) -> LakeFSClient:
        return LakeFSClient(self.configuration())

    @cached_property
    def client(self) -> lakefs.Client:
        return lakefs.Client(
            host=self.server.endpoint,
            username=self.server.access_key_id,
            password=self.server.secret_access_key,
        )

    def configuration(self) -> Configuration:
        """A new SDK configuration with the right key pair."""
        return Configuration(
            host=self.server.endpoint,
            username=self.server.access_key_id,
            password=self.server.secret_access_key,
        )

    def namespace(self, repository: str) -> str:
        return f"{self.base}/{repository}"

    def repository(self, name: str = "lake", **kwargs: Any) -> lakefs.Repository:
        return lakefs.Repository(name, self.client).create(storage_namespace=self.namespace(name), **kwargs)

    def writer(self, repository: str = "lake") -> ObjectWriter:
        return open_writer(self.namespace(repository), self.server.settings.storage)

    def stage(
        self,
        repository: str,
        branch: str,
        path: str,
        key: str,
        *,
        size_bytes: int,
        checksum: str = "c",
        **more: Any,
    ) -> lakefs_sdk.ObjectStats:
        """Stage an entry for `key` of the repository's namespace (StageObject, deprecated)."""
        body = lakefs_sdk.ObjectStageCreation(
            physical_address=f"{self.namespace(repository)}/{key}",
            checksum=checksum,
            size_bytes=size_bytes,
            **more,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return self.sdk.internal_api.stage_object(repository, branch, path, body)

    def inject(self, name: str, action: Callable[[Any], Any]) -> Any:
        """Apply a fault rule to one operation during a `with` block."""
        return self.server.faults.injecting(
            lambda request: action(request) if request.operation == name else None
        )

    def http(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: bytes | Iterable[bytes] | None = None,
        json_body: Any = None,
        headers: Mapping[str, str] | None = None,
        credentials: tuple[str, str] | None = ("", ""),
    ) -> urllib3.BaseHTTPResponse:
        """Send one plain request, for requests not supported by any client."""
        sent = dict(headers or {})
        if credentials is not None:
            pair = (
                credentials if credentials[0] else (self.server.access_key_id, self.server.secret_access_key)
            )
            sent |= urllib3.make_headers(basic_auth=":".join(pair))
        if json_body is not None:
            body = json.dumps(json_body).encode()
            sent.setdefault("Content-Type", "application/json")
        url = self.server.endpoint + path
        if query:
            url += "?" + urlencode(query)
        with urllib3.PoolManager(retries=False) as pool:
            return pool.request(method, url, body=body, headers=sent, redirect=False)


class HasBucket(Protocol):
    """A bucket of S3 or of Google Cloud Storage."""

    @property
    def options(self) -> StorageOptions: ...
    @property
    def uri(self) -> str: ...


@contextmanager
def lakefs_server(
    folder: Path,
    *,
    bucket: HasBucket | None = None,
    kv: Store | None = None,
    kv_url: str = "memory://",
    clock: Clock | None = None,
    defects: Iterable[str] = (),
    faults: FaultInjector | None = None,
    open_namespace: Callable[[str], ObjectWriter] | None = None,
    **settings: Any,
) -> Iterator[Lake]:
    clock = clock or Clock()
    given: dict[str, Any] = {
        "listen": "127.0.0.1:0",
        "kv_url": kv_url,
        "credentials": KEY_PAIR,
        "defects": frozenset(defects),
        "presign": False,
    }
    if bucket is None:
        objects = folder / "objects"
        objects.mkdir(parents=True, exist_ok=True)
        given |= {"local_base": str(objects)}
        base = f"local://{objects}"
    else:
        kind = bucket.uri.partition(":")[0].replace("https", "http")
        given |= {"blockstore": {"http": "azure"}.get(kind, kind), "storage": bucket.options}
        base = bucket.uri
    server = ThreadedServer(
        ServerSettings(**(given | settings)), kv=kv, open_namespace=open_namespace, clock=clock, faults=faults
    )
    with server:
        yield Lake(server, base, clock)


@pytest.fixture
def lakefs_servers(tmp_path: Path) -> Iterator[Callable[..., Lake]]:
    """Start any number of servers in one test, each with `lakefs_server`'s options and a new folder."""
    with ExitStack() as running:

        def start(**options: Any) -> Lake:
            folder = tmp_path / f"lakefs-{uuid.uuid4().hex[:6]}"
            return running.enter_context(lakefs_server(folder, **options))

        yield start


def load_kv(path: Path, store: Store | None = None) -> Store:
    """Put the records of a captured `kv.jsonl` into a store (a new memory store by default)."""
    store = store or open_store("memory://")
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            store.set(row["partition"].encode(), row["key"].encode(), base64.b64decode(row["value_b64"]))
    return store


def load_namespace(folder: Path, bucket: TestBucket, prefix: str) -> int:
    """Put the files of a captured namespace into a bucket, below `prefix`; returns their number."""
    count = 0
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        key = f"{prefix}/{path.relative_to(folder).as_posix()}"
        bucket.client.put_object(Bucket=bucket.bucket, Key=key, Body=path.read_bytes())
        count += 1
    return count
