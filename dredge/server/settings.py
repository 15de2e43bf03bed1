"""How the embedded server is set up: one frozen value, checked once."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dredge.errors import ConfigError
from dredge.graveler.catalog import CATALOG_DEFECTS, Settings
from dredge.server.folders import Credentials, DataFolder
from dredge.storage import StorageOptions

HTTP_DEFECTS: frozenset[str] = frozenset(
    {
        "double_body_prepare_commits",  # 400 and two JSON documents, though the CSV was written
        "prepare_commits_404",  # a gateway, or an internal miss, that looks like "no rules"
        "prepare_commits_500_async",  # a server before 1.72 answers 500 to asynchronous calls
    }
)
DEFECTS: frozenset[str] = HTTP_DEFECTS.union(CATALOG_DEFECTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Everything the server needs to know before it starts.

    Attributes:
        listen: `host:port`; port 0 takes a free one.
        kv_url: `memory://`, `sqlite:///abs/path.db` or whatever else `dredge.kv.open_store` opens.
        blockstore: where objects lie: "local" (a folder) or "s3".
        local_base: absolute folder that every local namespace must be below; required for "local".
        local_import: let local servers import, from folders below `local_base`; S3 servers always may.
        storage: how to reach S3; None reads the usual AWS variables.
        credentials: the one key pair; None starts without any, for `POST /setup_lakefs` to make.
        signing_key: signs login tokens and handed-out addresses. Change it and both end.
        housekeeping_seconds: how often records that are kept for a time only are looked through.
        login_seconds: life of a login token.
        catalog: rules of the data model; its signing key and defects are replaced by those given here.
        defects: names of DEFECTS to switch on. All are faults of real servers, for tests; none by default.
        prepare_commits_answer: what the synchronous call answers where no URL can be pre-signed, as
            here: "lakefs" like a real server (400, two JSON documents), "single" 201 without the URL.
    """

    listen: str = "127.0.0.1:8000"
    kv_url: str = "memory://"
    blockstore: Literal["local", "s3"] = "local"
    local_base: str | None = None
    local_import: bool = False
    storage: StorageOptions | None = None
    credentials: Credentials | None = None
    signing_key: str = field(default="local-signing-secret", repr=False)
    housekeeping_seconds: float = 3600
    login_seconds: int = 7 * 24 * 3600
    catalog: Settings = field(default_factory=Settings)
    defects: frozenset[str] = frozenset()
    prepare_commits_answer: Literal["lakefs", "single"] = "lakefs"

    def __post_init__(self) -> None:
        if self.blockstore not in ("local", "s3"):
            raise ConfigError(f"block store {self.blockstore!r} is unknown; use 'local' or 's3'")
        if self.blockstore == "local" and not (self.local_base or "").rstrip("/").startswith("/"):
            raise ConfigError(
                "the local block store needs an absolute folder, other than /, for its namespaces"
            )
        unknown = sorted(self.defects - DEFECTS)
        if unknown:
            raise ConfigError(f"unknown defects {', '.join(unknown)}; known are {', '.join(sorted(DEFECTS))}")
        if not self.signing_key:
            raise ConfigError("the signing key must not be empty")
        split_listen(self.listen)

    @classmethod
    def for_folder(cls, folder: str | os.PathLike[str], **changes: Any) -> ServerSettings:
        """A server that keeps everything in one folder (see `folders.DataFolder`), on a free local port.

        Args:
            folder: made when missing; found again with its key pair when not.
            changes: other settings to give.
        """
        data = DataFolder.open(folder)
        defaults: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "kv_url": data.kv_url,
            "local_base": data.objects,
            "credentials": data.credentials,
            "signing_key": data.signing_key,
        }
        return cls(**(defaults | changes))

    def defect(self, name: str) -> bool:
        """Say whether a defect is switched on."""
        return name in self.defects

    @property
    def signs_parts(self) -> bool:
        """Whether URLs for the parts of an upload are handed out: asked for, and on S3."""
        return self.catalog.presign_multipart and self.blockstore == "s3"

    @property
    def catalog_settings(self) -> Settings:
        """The catalog's settings with the signing key and the defects of this server."""
        return replace(
            self.catalog,
            signing_key=self.signing_key,
            defects=self.catalog.defects | (self.defects & CATALOG_DEFECTS),
        )


def split_listen(listen: str) -> tuple[str, int]:
    """Take `host:port` apart; an IPv6 address stands in brackets.

    Raises:
        ConfigError: it is not of that form.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"listen address {listen!r} must be host:port, such as 127.0.0.1:8000")
    return host.strip("[]") or "0.0.0.0", int(port)
