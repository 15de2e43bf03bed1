"""Parts of the API's cases: a repository each, and helpers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lakefs_sdk as sdk
from lakefs_sdk.client import LakeFSClient
from lakefs_sdk.exceptions import ApiException

from dredge.lakefs.files.messages import graveler_pb2
from tests.support.lakefs_server import Lake


@dataclass(frozen=True)
class Api:
    """The clients and the repository of a case.

    `main` has one commit with `a`; `side` was made from it and has one more with `b`; nothing is staged.
    """

    lake: Lake
    repo: str

    @property
    def sdk(self) -> LakeFSClient:
        return self.lake.sdk

    def status(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
        """Make an SDK call; returns the status code."""
        with_info = getattr(call.__self__, call.__name__ + "_with_http_info")  # type: ignore[attr-defined]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                return int(with_info(*args, **kwargs).status_code)
        except ApiException as refused:
            return int(refused.status)

    def upload(self, path: str, data: bytes = b"x", branch: str = "main") -> None:
        query = {"path": path}
        url = f"/repositories/{self.repo}/branches/{branch}/objects"
        assert self.lake.http("POST", url, query=query, body=data).status == 201

    def commit(self, branch: str = "main") -> sdk.Commit:
        return self.sdk.commits_api.commit(self.repo, branch, sdk.CommitCreation(message="m"))

    def put(self, path: str, data: bytes = b"x", branch: str = "main") -> sdk.Commit:
        self.upload(path, data, branch)
        return self.commit(branch)

    def namespace(self, name: str) -> str:
        return self.lake.namespace(name)

    def protect(self) -> None:
        self.sdk.repositories_api.set_branch_protection_rules(
            self.repo, [sdk.BranchProtectionRule(pattern="main")]
        )

    def rules(self) -> sdk.GarbageCollectionRules:
        # without a branch a server answers null, which the SDK cannot read
        branch = sdk.GarbageCollectionRule(branch_id="side", retention_days=1)
        return sdk.GarbageCollectionRules(default_retention_days=7, branches=[branch])

    def record(self, **changes: Any) -> sdk.CommitRecordCreation:
        head = self.sdk.commits_api.get_commit(self.repo, "main")
        fields = {
            "commit_id": head.id,
            "version": head.version,
            "committer": head.committer,
            "message": head.message,
            "metarange_id": head.meta_range_id,
            "creation_date": head.creation_date,
            "parents": head.parents,
            "metadata": head.metadata,
            "generation": head.generation,
        }
        return sdk.CommitRecordCreation(**(fields | changes))

    def copied_record(self) -> int:
        """Take main's head commit, record for record, into a bare repository."""
        record = self.record()
        other = sdk.RepositoryCreation(
            name=f"{self.repo}-b", storage_namespace=self.namespace(f"{self.repo}-b")
        )
        self.sdk.repositories_api.create_repository(other, bare=True)
        return self.status(self.sdk.internal_api.create_commit_record, f"{self.repo}-b", record)

    def locked(self) -> None:
        """Put the repository into deletion, as after an interrupted deletion."""
        kv = self.lake.server.kv
        key = f"repos/{self.repo}".encode()
        record = graveler_pb2.RepositoryData.FromString(kv.get(b"graveler", key))
        record.state = graveler_pb2.IN_DELETION
        kv.set(b"graveler", key, record.SerializeToString())

    def read_only(self) -> str:
        name = f"{self.repo}-ro"
        self.sdk.repositories_api.create_repository(
            sdk.RepositoryCreation(name=name, storage_namespace=self.namespace(name), read_only=True)
        )
        return name

    def lose(self, path: str) -> None:
        address = self.sdk.objects_api.stat_object(self.repo, "main", path).physical_address
        Path(address.removeprefix("local://")).unlink()

    def backing(self, path: str) -> sdk.StagingLocation:
        return self.sdk.staging_api.get_physical_address(self.repo, "main", path)

    def link(self, path: str, location: sdk.StagingLocation) -> int:
        body = sdk.StagingMetadata(staging=location, checksum="c", size_bytes=1)
        return self.status(self.sdk.staging_api.link_physical_address, self.repo, "main", path, body)

    def start_import(self, branch: str = "main", path: str | None = None) -> sdk.ImportCreationResponse:
        source = path or self.namespace("warehouse") + "/one"
        return self.sdk.import_api.import_start(self.repo, branch, self.import_of(source))

    def import_of(self, source: str) -> sdk.ImportCreation:
        location = sdk.ImportLocation(type="object", path=source, destination="in/one")
        return sdk.ImportCreation(paths=[location], commit=sdk.CommitCreation(message="m"))

    def ended_import(self) -> str:
        started = self.start_import()
        while not self.sdk.import_api.import_status(self.repo, "main", started.id).completed:
            pass
        return started.id


def conflict(api: Api) -> None:
    """main and side both change `a`."""
    api.put("a", b"main")
    api.put("a", b"side", "side")


def failed_import(api: Api) -> str:
    """A failed import: main has staged changes, so there is no commit."""
    api.upload("staged")
    return api.start_import().id


def reset(kind: str, path: str | None = None) -> sdk.ResetCreation:
    return sdk.ResetCreation(type=kind, path=path)


def body(name: str, **fields: Any) -> Any:
    return getattr(sdk, name)(**fields)


NOWHERE = "no-such-thing"
type Case = tuple[str, int, Callable[[Api], int]]


def on(call: Callable[[LakeFSClient], Callable[..., Any]], *args: Any, **kwargs: Any) -> Callable[[Api], int]:
    return lambda api: api.status(call(api.sdk), api.repo, *args, **kwargs)


def after(prepare: Callable[[Api], Any], case: Callable[[Api], int]) -> Callable[[Api], int]:
    def run(api: Api) -> int:
        prepare(api)
        return case(api)

    return run


def upload(branch: str = "main", path: str = "new", **more: Any) -> Callable[[Api], int]:
    return lambda api: api.status(
        api.sdk.objects_api.upload_object, api.repo, branch, path, content=__file__, **more
    )


def create(name: str | None = None, where: str | None = None) -> Callable[[Api], int]:
    def run(api: Api) -> int:
        made = name or f"{api.repo}-2"
        wanted = sdk.RepositoryCreation(
            name=made, storage_namespace=where if where is not None else api.namespace(made)
        )
        return api.status(api.sdk.repositories_api.create_repository, wanted)

    return run
