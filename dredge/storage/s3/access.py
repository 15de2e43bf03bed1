"""How one bucket is reached: its URL, its region, the proxy on the way, and who asks. Each client is handed this."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dredge.connections import any_proxy, proxies_for
from dredge.storage.native import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions
from dredge.storage.s3.errors import translated
from dredge.storage.s3.resolving import ANYWHERE, CHECKSUMS, SWITCHES, Identity, checked
from dredge.storage.s3.wire import install_hooks

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

POOL_CONNECTIONS = 64
READ_ATTEMPTS = 6
# What a configuration may say without a difference between the clients. Whatever else it says, boto3 alone works.
_FOR_BOTH = frozenset(
    {
        *SWITCHES,
        *CHECKSUMS,
        "connect_timeout",
        "max_pool_connections",
        "proxies",
        "read_timeout",
        "region_name",
        "retries",
        "s3",
        "signature_version",
        "tcp_keepalive",
        "user_agent",
        "user_agent_extra",
    }
)


@dataclass(frozen=True)
class Access:
    """How a bucket is reached; see the module's text.

    Attributes:
        session: boto3's; has the credentials, and renews them.
        url: of the bucket, without a slash at its end; says the addressing style as well.
        region: of the bucket.
        endpoint_url: of a store that is not AWS.
        verify: certificates are checked by this file, by the usual authorities (True), or not at all.
        proxies: by scheme of the URL; empty for none.
        config: further arguments of botocore's `Config`.
    """

    session: Any
    url: str
    region: str
    endpoint_url: str | None
    verify: bool | str
    proxies: dict[str, str]
    config: dict[str, Any]

    @property
    def path_style(self) -> bool:
        """Whether the URL names the bucket in its path."""
        return bool(self.config["s3"]["addressing_style"] == "path")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests are not signed."""
        return self.config.get("signature_version") == "unsigned"

    @property
    def wants_checksums(self) -> bool:
        """Whether each object is to be sent with a checksum."""
        return bool(self.config[CHECKSUMS[0]] == "when_supported")

    @property
    def fits_obstore(self) -> bool:
        """Whether obstore sends the same requests by these settings as boto3."""
        signature = self.config.get("signature_version")
        return set(self.config) <= _FOR_BOTH and signature in {None, "unsigned", "s3v4"}

    @property
    def proxy(self) -> tuple[str | None, str | None]:
        """The proxy to name to a client that would look for one itself, and the host for which it is passed by."""
        if self.proxies:
            return next(iter(self.proxies.values())), None
        named = any_proxy()
        return named, urlsplit(self.url).hostname if named else None

    def client(
        self,
        retries: bool = True,
        requester_pays: bool = False,
        signature_version: str | None = None,
    ) -> S3Client:
        """Build a client of boto3."""
        from botocore import UNSIGNED
        from botocore.config import Config

        signature = signature_version or self.config.get("signature_version")
        ours = {
            "connect_timeout": CONNECT_SECONDS,
            "read_timeout": READ_SECONDS,
            "max_pool_connections": POOL_CONNECTIONS,
            **self.config,
            "ignore_configured_endpoint_urls": True,
            "signature_version": UNSIGNED if signature == "unsigned" else signature,
            "retries": {"mode": "standard", "total_max_attempts": READ_ATTEMPTS if retries else 1},
            "proxies": self.proxies,
        }
        with checked(f"setting up the client of {self.url or 'S3'}"):
            client: S3Client = self.session.client(
                "s3",
                endpoint_url=self.endpoint_url,
                verify=self.verify,
                region_name=self.region,
                config=Config(**ours),
            )
        install_hooks(client, requester_pays)
        return client


def find_access(known: StorageOptions, identity: Identity, bucket: str) -> Access:
    """Find out how a bucket is reached.

    Args:
        known: resolved options.
        identity: of `identity_of`.
        bucket: its name.

    Where the region was not given, or the bucket may be in another one than that which was (on AWS), the bucket is
    asked for it: every answer names it, a refusal too.

    Raises:
        ConfigError: AWS's configuration contradicts itself.
        UnavailableError: the bucket did not answer.
    """
    config: dict[str, Any] = json.loads(known.config or "{}")
    told = config.pop("region_name", None)
    access = Access(
        session=identity.session,
        url="",
        region=known.region or told or ANYWHERE,
        endpoint_url=known.endpoint_url,
        verify=identity.verify,
        proxies={},
        config=config | {"s3": _addressed(known, config)} | _checksums(config),
    )
    access = _placed(access, bucket)
    if known.endpoint_url is None or not (known.region or told):
        found = _region_of(access, bucket, known.requester_pays)
        if found and found != access.region:
            access = _placed(replace(access, region=found), bucket)
    return access


def _addressed(options: StorageOptions, config: dict[str, Any]) -> dict[str, Any]:
    """S3's own section, with the style: as told, else the path where the store is not AWS."""
    said: dict[str, Any] = dict(config.get("s3") or {})
    if options.path_style is not None:
        said["addressing_style"] = "path" if options.path_style else "virtual"
    elif said.get("addressing_style") in {None, "", "auto"}:
        said["addressing_style"] = "path" if options.endpoint_url else "auto"
    return said


def _checksums(config: dict[str, Any]) -> dict[str, str]:
    """Older S3-compatible servers refuse the newer default checksums."""
    return {name: config.get(name) or "when_required" for name in CHECKSUMS}


def _placed(access: Access, bucket: str) -> Access:
    """Add the URL of the bucket, as botocore makes it, and the proxy on the way to it."""
    seen: list[str] = []

    def stop(params: dict[str, Any], **_: object) -> Any:
        seen.append(params["url"].rstrip("/"))
        return SimpleNamespace(status_code=200), {}

    client = access.client()
    client.meta.events.register("before-call.s3.HeadBucket", stop)
    with checked(f"making the URL of bucket {bucket}"):
        client.head_bucket(Bucket=bucket)
    proxies = access.config.get("proxies")
    return replace(access, url=seen[0], proxies=proxies_for(seen[0]) if proxies is None else proxies)


def _region_of(access: Access, bucket: str, requester_pays: bool) -> str | None:
    from botocore.exceptions import ClientError

    with translated(f"asking bucket {bucket} for its region"):
        try:
            answer: Any = access.client(requester_pays=requester_pays).head_bucket(Bucket=bucket)
        except ClientError as error:
            answer = error.response
    found: str | None = answer["ResponseMetadata"]["HTTPHeaders"].get("x-amz-bucket-region")
    return found
