"""A lake under construction: uploads through the lakeFS API, and the expected outcome of every object."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import lakefs
import lakefs_sdk
from lakefs.client import Client

from dredge.storage import StorageOptions, open_writer

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Planted:
    """One object in the store and its expected outcome.

    Attributes:
        address: key relative to the storage namespace.
        size: bytes.
        kind: short name of the situation, a row of the final table.
        live: True if a collector must keep it.
        why: one sentence for the table.
    """

    address: str
    size: int
    kind: str
    live: bool
    why: str


@dataclass
class Lake:
    """A repository under construction, with the expected outcomes."""

    client: Client
    repository: str
    namespace: str
    options: StorageOptions | None = None
    planted: dict[str, Planted] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open the API, and the object store for uploads outside lakeFS."""
        self.sdk: Any = self.client.sdk_client
        self.store = open_writer(self.namespace, self.options)
        self._pool = ThreadPoolExecutor(max_workers=8)

    @classmethod
    def create(
        cls,
        client: Client,
        repository: str,
        namespace: str,
        retention_days: int = 30,
        options: StorageOptions | None = None,
    ) -> Lake:
        """Create the repository with its retention rules.

        Args:
            client: a client of the lakeFS server.
            repository: name of the new repository.
            namespace: URI of its storage namespace.
            retention_days: default retention of the garbage collection rules.
            options: access to the object store; None takes the environment.
        """
        lakefs.Repository(repository, client).create(storage_namespace=namespace)
        lake = cls(client, repository, namespace, options)
        rules = lakefs_sdk.GarbageCollectionRules(default_retention_days=retention_days, branches=[])
        lake.sdk.repositories_api.set_gc_rules(repository, rules)
        return lake

    def relative(self, physical_address: str) -> str:
        """Return the key relative to the namespace for an address of the API."""
        prefix = self.namespace.rstrip("/") + "/"
        if not physical_address.startswith(prefix):
            raise ValueError(f"{physical_address} is not below {prefix}")
        return physical_address.removeprefix(prefix)

    def branch(self, name: str, source: str = "main", hidden: bool = False) -> None:
        """Create a branch."""
        creation = lakefs_sdk.BranchCreation(name=name, source=source, hidden=hidden)
        self.sdk.branches_api.create_branch(self.repository, creation)

    def upload(self, branch: str, path: str, content: bytes, **options: Any) -> str:
        """Upload one object through the API and return its address."""
        target = lakefs.Repository(self.repository, self.client).branch(branch).object(path)
        target.upload(content, mode="wb", pre_sign=False, **options)
        return self.address(branch, path)

    def upload_many(self, branch: str, paths: Sequence[str], salt: str = "") -> list[str]:
        """Upload distinct small objects, several at once, and return their addresses in order."""
        return list(self._pool.map(lambda path: self.upload(branch, path, make_content(path, salt)), paths))

    def address(self, ref: str, path: str) -> str:
        """Return the address of an object."""
        return self.relative(self.sdk.objects_api.stat_object(self.repository, ref, path).physical_address)

    def commit(self, branch: str, message: str, age_days: float = 0) -> str:
        """Commit a branch, back-dated when asked to, and return the commit's id."""
        creation = lakefs_sdk.CommitCreation(
            message=message, var_date=int(time.time() - age_days * DAY_SECONDS)
        )
        return str(self.sdk.commits_api.commit(self.repository, branch, creation).id)

    def delete(self, branch: str, paths: Iterable[str]) -> None:
        """Delete objects on a branch (staged until committed)."""
        self.sdk.objects_api.delete_objects(self.repository, branch, lakefs_sdk.PathList(paths=list(paths)))

    def reset(self, branch: str) -> None:
        """Discard all staged changes of a branch."""
        self.sdk.branches_api.reset_branch(self.repository, branch, lakefs_sdk.ResetCreation(type="reset"))

    def plant(self, addresses: Iterable[str], kind: str, live: bool, why: str) -> None:
        """Record the expected outcome of objects; a live object stays live."""
        for address in addresses:
            known = self.planted.get(address)
            if known is None or (live and not known.live):
                self.planted[address] = Planted(address, self.store.stat(address).size, kind, live, why)


def make_content(path: str, salt: str = "") -> bytes:
    """Return content that depends on path and salt, a few hundred bytes long."""
    seed = hashlib.sha256(f"{path}\0{salt}".encode()).hexdigest()
    return f"{path}\n{salt}\n{seed * (1 + int(seed[:2], 16) % 8)}\n".encode()
