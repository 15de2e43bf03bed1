"""Native clients for the bare collection, without Dredge: obstore for folders and S3, else the service's own SDK."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Protocol

import obstore
import pyarrow as pa
from obstore.store import ObjectStore, from_url

AT_ONCE = 32


class Client(Protocol):
    """A client on a storage namespace; names are relative to it."""

    def list(self, prefix: str) -> pa.ChunkedArray:
        """Return the names of all objects below a prefix with a slash at its end."""

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Read objects, `AT_ONCE` at a time."""

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects."""


def open_client(namespace: str) -> Client:
    """Return the client of a namespace, configured by the environment."""
    scheme = namespace.partition(":")[0]
    if scheme == "gs":
        return GcsClient(namespace)
    return AzureClient(namespace) if scheme in {"http", "https"} else ObstoreClient(namespace)


class ObstoreClient:
    """See `Client`."""

    def __init__(self, namespace: str) -> None:
        settings = {"client_options": {"allow_http": True}} if namespace.startswith("s3:") else {}
        self._store: ObjectStore = from_url(namespace, **settings)  # type: ignore[call-overload]

    def list(self, prefix: str) -> pa.ChunkedArray:
        """List."""
        pages = obstore.list(self._store, prefix=prefix.rstrip("/"), chunk_size=5000, return_arrow=True)
        return pa.chunked_array(
            [pa.array(page["path"]).cast(pa.string()) for page in pages], type=pa.string()
        )

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Read."""
        limit = asyncio.Semaphore(AT_ONCE)

        async def get(name: str) -> bytes:
            async with limit:
                return bytes(await (await obstore.get_async(self._store, name)).bytes_async())

        async def every() -> list[bytes]:
            return await asyncio.gather(*(get(name) for name in names))

        return asyncio.run(every())

    def delete(self, names: Sequence[str]) -> None:
        """Delete."""
        obstore.delete(self._store, list(names))


class GcsClient:
    """See `Client`. Deletes one object a request: the emulator does not support the SDK's batches."""

    def __init__(self, namespace: str) -> None:
        self._bucket_name, _, root = namespace.removeprefix("gs://").partition("/")
        self._root = f"{root}/"

    @cached_property
    def _bucket(self) -> Any:
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage
        from requests.adapters import HTTPAdapter

        anonymous = AnonymousCredentials()  # type: ignore[no-untyped-call]
        place = {"api_endpoint": os.environ["STORAGE_EMULATOR_HOST"]}
        client: Any = storage.Client(project="-", credentials=anonymous, client_options=place)
        client._http.mount("http://", HTTPAdapter(pool_maxsize=AT_ONCE))
        return client.bucket(self._bucket_name)

    def list(self, prefix: str) -> pa.ChunkedArray:
        """List."""
        cut = len(self._root)
        found = [blob.name[cut:] for blob in self._bucket.list_blobs(prefix=self._root + prefix)]
        return pa.chunked_array([pa.array(found, pa.string())])

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Read."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(
                pool.map(lambda name: self._bucket.blob(self._root + name).download_as_bytes(), names)
            )

    def delete(self, names: Sequence[str]) -> None:
        """Delete."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda name: self._bucket.blob(self._root + name).delete(), names))


class AzureClient:
    """See `Client`."""

    def __init__(self, namespace: str) -> None:
        self._container_url, _, root = namespace.rpartition("/")
        self._root = f"{root}/"

    @cached_property
    def _container(self) -> Any:
        from azure.storage.blob import ContainerClient

        from dredge.storage.azure.options import AzureOptions

        options = AzureOptions.from_env(os.environ)
        key = {"account_name": str(options.account), "account_key": str(options.key)}
        return ContainerClient.from_container_url(self._container_url, credential=key)

    def list(self, prefix: str) -> pa.ChunkedArray:
        """List."""
        cut = len(self._root)
        found = [blob.name[cut:] for blob in self._container.list_blobs(self._root + prefix)]
        return pa.chunked_array([pa.array(found, pa.string())])

    def get_all(self, names: Iterable[str]) -> list[bytes]:
        """Read."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(
                pool.map(lambda name: self._container.download_blob(self._root + name).readall(), names)
            )

    def delete(self, names: Sequence[str]) -> None:
        """Delete, 256 a request."""
        for start in range(0, len(names), 256):
            list(self._container.delete_blobs(*(self._root + name for name in names[start : start + 256])))
