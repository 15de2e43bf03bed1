"""Settings to reach one bucket: its URL, region, proxy and credentials, for both clients; hooks below boto3's answers.

boto3 makes a dict with a parsed date of each listed object, at about 100 µs each. A hook keeps the XML of a page and
gives boto3 an empty page, so signing, retries, proxies and errors stay boto3's, and `store.py` reads the columns.

Source for refused buckets: Amazon S3 User Guide, "Directory bucket naming rules", "Object Lambda Access Points",
"Multi-Region Access Points"; ListObjectsV2 ("For directory buckets, ... results are not returned in lexicographical
order").

Two libraries share the work. boto3 lists, deletes and writes under conditions, as keys and answers must be exact.
obstore moves bytes (get, put) with a fifth of the CPU, and needs a tenth for head, but rewrites some keys, so it gets
only keys in normal form. In a child forked after its first use obstore hangs, so boto3 does its part there. Both have
the settings of this module, and read nothing from the environment.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dredge.causes import is_certificate
from dredge.connections import any_proxy, proxies_for
from dredge.errors import ConfigError
from dredge.storage.https import CONNECT_SECONDS, READ_SECONDS
from dredge.storage.options import StorageOptions
from dredge.storage.parallel import MOST, STORE
from dredge.storage.remote import ProcessCache
from dredge.storage.s3.resolving import (
    ANYWHERE,
    CHECKSUMS,
    SWITCHES,
    Identity,
    checked,
    identity_of,
    resolved,
    translated,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, RetryConfig, S3Credential, S3Store

_REFUSED = {
    "--x-s3": (
        "a directory bucket (S3 Express One Zone) lists objects in no order, so that no listing of it can be proved"
        " complete, and keeps no versions; lakeFS does not run on one either"
    ),
    "--ol-s3": "an Object Lambda access point shows objects other than they are stored",
    ".mrap": "a Multi-Region Access Point answers from the nearest region, which may lack the newest objects",
}


def check_bucket(bucket: str) -> None:
    """Refuse ARNs and special buckets; raises ConfigError."""
    if bucket.startswith("arn:"):
        raise ConfigError(
            f"s3://{bucket}: an ARN is no bucket name in a URI; use the alias of the access point (…-s3alias). Nothing"
            " was changed."
        )
    for ending, why in _REFUSED.items():
        if bucket.endswith(ending):
            raise ConfigError(f"s3://{bucket}: {why}. Nothing was changed.")


POOL_CONNECTIONS = MOST
READ_ATTEMPTS = 6
# Settings with the same effect in both clients. With any other setting only boto3 is used.
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
    """Settings of a bucket."""

    session: Any
    url: str  # of the bucket, without a trailing slash; its form is the addressing style
    region: str
    endpoint_url: str | None
    verify: bool | str  # a file with authorities, True for the usual authorities, False for no check
    proxies: dict[str, str]
    config: dict[str, Any]

    @property
    def path_style(self) -> bool:
        """Whether the bucket is in the path of the URL."""
        return bool(self.config["s3"]["addressing_style"] == "path")

    @property
    def is_anonymous(self) -> bool:
        """Whether requests are unsigned."""
        return self.config.get("signature_version") == "unsigned"

    @property
    def wants_checksums(self) -> bool:
        """Whether uploads need a checksum."""
        return bool(self.config[CHECKSUMS[0]] == "when_supported")

    @property
    def fits_obstore(self) -> bool:
        """Whether obstore sends the same requests as boto3 with these settings."""
        signature = self.config.get("signature_version")
        return set(self.config) <= _FOR_BOTH and signature in {None, "unsigned", "s3v4"}

    @property
    def proxy(self) -> tuple[str | None, str | None]:
        """The proxy for a client that reads the environment itself, and the host to exclude from it."""
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
            # boto3's session would load its manager of uploads and downloads, too.
            client: S3Client = self.session.create_client(
                "s3",
                endpoint_url=self.endpoint_url,
                verify=self.verify,
                region_name=self.region,
                config=Config(**ours),
            )
        install_hooks(client, requester_pays)
        return client


def find_access(known: StorageOptions, identity: Identity, bucket: str) -> Access:
    """Read the settings of a bucket.

    Every answer has the region of a bucket, also a refusal. So the bucket is asked if the region is not given, or if
    it may be wrong (on AWS).
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
    said: dict[str, Any] = dict(config.get("s3") or {})
    if options.path_style is not None:
        said["addressing_style"] = "path" if options.path_style else "virtual"
    elif said.get("addressing_style") in {None, "", "auto"}:
        said["addressing_style"] = "path" if options.endpoint_url else "auto"
    return said


def _checksums(config: dict[str, Any]) -> dict[str, str]:
    # Older S3-compatible servers refuse the newer default checksums.
    return {name: config.get(name) or "when_required" for name in CHECKSUMS}


def _placed(access: Access, bucket: str) -> Access:
    """Add the URL of the bucket, from botocore, and its proxy."""
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


PAGE_XML = "DredgePageXml"
"""Key of the page's XML (bytes) in a listing answer."""
IS_ANSWER = "DredgeIsAnswer"
"""Key of an answer: whether its body belongs to the operation. botocore reads any XML, such as a proxy's page, as an
empty answer: all keys deleted, no versions, no versioning."""
_ROOTS = {
    "DeleteObjects": b"DeleteResult",
    "ListObjectVersions": b"ListVersionsResult",
    "GetBucketVersioning": b"Versioning",  # some servers name the element otherwise than AWS
}

_EMPTY_PAGE = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult/>'


def install_hooks(client: S3Client, requester_pays: bool = False) -> None:
    """Register the hooks of a client."""
    events = client.meta.events
    if requester_pays:
        events.register("before-call.s3", _pay)
    events.register_first("needs-retry.s3", _end_at_a_certificate)
    events.register("needs-retry.s3", _note_refusal)
    _come_before_the_search_for_errors(events)
    for operation in _ROOTS:
        events.register_last(f"before-parse.s3.{operation}", _keep_kind)
    events.register_last("before-call.s3.DeleteObjects", _add_md5)


def _come_before_the_search_for_errors(events: Any) -> None:
    # botocore's own hook parses every 200 answer to find an error in it, so the page hook runs first; other answers
    # are left to botocore. Without its private name only listing gets slower.
    every = "before-parse.s3.*"
    import botocore.handlers

    search = getattr(botocore.handlers, "_handle_200_error", None)
    if search is not None:
        events.unregister(every, search)
    events.register_first(every, _keep_page)
    if search is not None:
        events.register_first(every, search)


def _keep_page(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    if operation_model.name != "ListObjectsV2" or response_dict["status_code"] != 200:
        return
    if b"<ListBucketResult" in response_dict["body"][:1024]:
        customized_response_dict[PAGE_XML] = response_dict["body"]
        response_dict["body"] = _EMPTY_PAGE


def _keep_kind(
    operation_model: Any, response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object
) -> None:
    customized_response_dict[IS_ANSWER] = _ROOTS[operation_model.name] in response_dict["body"][:1024]


def _note_refusal(response: tuple[Any, Any] | None, **_: object) -> None:
    if response is not None and response[0].status_code in (429, 503):
        STORE.refused()


def _end_at_a_certificate(caught_exception: Exception | None, **_: object) -> None:
    # botocore would retry a refused certificate.
    if caught_exception is not None and is_certificate(caught_exception):
        raise caught_exception


def _pay(params: dict[str, Any], **_: object) -> None:
    params["headers"]["x-amz-request-payer"] = "requester"


def _add_md5(params: dict[str, Any], **_: object) -> None:
    # S3-compatible servers from before the newer checksums require Content-MD5.
    body = params["body"]
    if isinstance(body, str):
        body = params["body"] = body.encode()
    digest = hashlib.md5(body, usedforsecurity=False).digest()
    params["headers"]["Content-MD5"] = base64.b64encode(digest).decode()


# botocore renews credentials ten minutes before they expire, so none is used for longer.
CREDENTIALS_KEPT = timedelta(minutes=9)
# obstore hangs for ever in a child forked after it was loaded.
_usable = True


def _after_fork() -> None:
    global _usable
    _usable = _usable and "obstore" not in sys.modules


os.register_at_fork(after_in_child=_after_fork)
# obstore reads these from the environment, and arguments do not override them. boto3 reads none of them.
_ONLY_OBSTORE = frozenset(
    f"AWS_{name}"
    for name in (
        "CHECKSUM_ALGORITHM",
        "DEFAULT_CONTENT_TYPE",
        "HTTP1_ONLY",
        "HTTP2_ONLY",
        "PROXY_CA_CERTIFICATE",
        "PROXY_EXCLUDES",
        "PROXY_URL",
        "SERVER_SIDE_ENCRYPTION",
        "SSE_BUCKET_KEY_ENABLED",
        "SSE_CUSTOMER_KEY_BASE64",
        "SSE_KMS_KEY_ID",
    )
)


CLIENTS = ProcessCache()


def s3_client(options: StorageOptions, bucket: str, retries: bool = True) -> S3Client:
    """The boto3 client of a bucket. `retries`: False for a client that reports throttling instead of trying again."""
    return CLIENTS.get(
        ("boto3", options, bucket, retries),
        lambda: access_to(options, bucket).client(retries, options.requester_pays),
    )


def signing_client(options: StorageOptions, bucket: str) -> S3Client:
    """The boto3 client that signs URLs for others."""
    # boto3's default is version 2: a URL signed so is refused when the client sends a content type.
    return CLIENTS.get(
        ("signer", options, bucket),
        lambda: access_to(options, bucket).client(
            signature_version="s3v4", requester_pays=options.requester_pays
        ),
    )


def bytes_client(options: StorageOptions, bucket: str) -> S3Store | None:
    """The obstore client of a bucket; None if obstore cannot be used (see the module)."""
    return CLIENTS.get(("obstore", options, bucket), lambda: _obstore(options, bucket)) if _usable else None


def access_to(options: StorageOptions, bucket: str) -> Access:
    """The settings to reach a bucket."""

    def known() -> tuple[StorageOptions, Identity]:
        found = resolved(options)
        return found, identity_of(found)

    return CLIENTS.get(
        ("access", options, bucket), lambda: find_access(*CLIENTS.get(("known", options), known), bucket)
    )


def _obstore(options: StorageOptions, bucket: str) -> S3Store | None:
    access = access_to(options, bucket)
    usable = access.fits_obstore and not any(os.environ.get(name) for name in _ONLY_OBSTORE)
    return _build_obstore(access, options.requester_pays, bucket) if usable else None


def _keys_now(keys: Any) -> S3Credential:
    # obstore's own provider loads boto3's manager of uploads and downloads, too.
    frozen = keys.get_frozen_credentials()
    return {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "token": frozen.token,
        "expires_at": datetime.now(UTC) + CREDENTIALS_KEPT,
    }


@translated("making the client of S3")
def _build_obstore(access: Access, requester_pays: bool, bucket: str) -> S3Store:
    from obstore.store import S3Store

    client_options: ClientConfig = {
        "connect_timeout": f"{CONNECT_SECONDS}s",
        "read_timeout": f"{READ_SECONDS}s",
        "timeout": "30m",
        "allow_http": access.url.startswith("http://"),
        "allow_invalid_certificates": access.verify is False,
    }
    if isinstance(access.verify, str):
        with open(access.verify, "rb") as file:
            client_options["root_certificate"] = file.read()
    proxy, passed_by = access.proxy
    if proxy is not None:
        client_options["proxy_url"] = proxy
        if passed_by is not None:
            client_options["proxy_excludes"] = passed_by
    settings: dict[str, Any] = {"checksum_algorithm": "SHA256"} if access.wants_checksums else {}
    if not access.is_anonymous:
        doing = f"asking for the credentials of bucket {bucket}"
        with translated(doing):
            keys = access.session.get_credentials()
            if keys is None:
                raise ConfigError(
                    f"no credentials for bucket {bucket}: set them in the connection, the environment or the"
                    " machine's role."
                )
            settings["credential_provider"] = partial(_keys_now, keys)
            settings["credential_provider"]()  # raises boto3's errors
    retries: RetryConfig = {"max_retries": READ_ATTEMPTS - 1, "retry_timeout": timedelta(minutes=2)}
    return S3Store(
        bucket,
        client_options=client_options,
        retry_config=retries,
        # Both names, because the environment overrides a missing one.
        aws_endpoint_url_s3=access.url,
        endpoint=access.url,
        virtual_hosted_style_request=True,  # that is: the URL has the bucket, wherever
        region=access.region,
        skip_signature=access.is_anonymous,
        unsigned_payload=False,
        s3_express=False,
        request_payer=requester_pays,
        **settings,
    )
