"""AWS's own configuration (variables, profiles, configuration files, the machine's role), for settings that are not
given.

botocore's session reads it. Both clients get its answers (`access.py`), so they use one place with one identity.
"""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from html import unescape
from typing import Any

from dredge import causes
from dredge.causes import THROTTLED, TRANSIENT, Cause, cause_of_code, cause_of_provider, cause_without_answer
from dredge.connections import ca_bundles, check_ca_bundle
from dredge.errors import ConfigError, DredgeError
from dredge.storage.https import redact
from dredge.storage.options import StorageOptions

__all__ = [
    "THROTTLED",
    "TRANSIENT",
    "UNKNOWN_REQUEST",
    "by_code",
    "translate",
    "translated",
    "translated_native",
]

UNKNOWN_REQUEST = frozenset({"NotImplemented", "MethodNotAllowed", "501", "405"})
"""Codes of stores with a part of S3's requests."""
_MISSING = frozenset({"404", "NoSuchKey", "NotFound", "NoSuchUpload", "NoSuchVersion"})
_CONFLICT = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_MISSING_CHECKSUM = re.compile(r"(?i)content-md5|checksum")
_HINTS = {
    causes.DENIED: "Check the policies of the user or role (s3:ListBucket, s3:GetObject, s3:PutObject,"
    " s3:DeleteObject) and of the bucket.",
    causes.NO_CONTAINER: "The bucket does not exist at this endpoint; check the URI and the endpoint.",
}
_STATUS = re.compile(r"\bstatus: (\d{3}),")
_CODE = re.compile(r"<Code>([^<]*)</Code>")
_MESSAGE = re.compile(r"<Message>([^<]*)</Message>")
_CONNECTING = re.compile(r"\bError\(\s*Connect,")
_REASON = re.compile(r'\b(?:message|error): "([^"]+)"')


def by_code(code: str, status: int, words: str) -> DredgeError:
    """The error for an error code and HTTP status."""
    cause = _cause(code, status, words)
    return cause.error(words, _HINTS.get(cause, ""))


def _cause(code: str, status: int, words: str) -> Cause:
    if code == "NoSuchBucket":
        return causes.NO_CONTAINER
    if code in UNKNOWN_REQUEST or status == 501:
        return causes.NOT_IMPLEMENTED
    if code in _CONFLICT or status == 412:
        return causes.CONFLICT
    if code in _MISSING or status == 404:
        return causes.MISSING
    if code in {"InvalidRequest", "MissingContentMD5"} and _MISSING_CHECKSUM.search(words):
        return causes.CHECKSUM
    return cause_of_code(code, status) or causes.REJECTED


def translate(error: Exception, doing: str) -> DredgeError:
    """Translate an error of botocore."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return cause_without_answer(error).error(redact(f"{doing}: {error}"))
    found = error.response.get("Error", {})
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    code = found.get("Code", "")
    return by_code(code, status, redact(f"{doing}: {code} {found.get('Message', '')}".rstrip()))


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise errors of boto3 as Dredge's errors, without their cause: it may contain request details."""
    from botocore.exceptions import BotoCoreError, ClientError
    from urllib3.exceptions import HTTPError

    try:
        yield
    except (BotoCoreError, ClientError, HTTPError) as error:
        raise translate(error, doing) from None


@contextmanager
def translated_native(doing: str) -> Iterator[None]:
    """Raise Dredge's errors for those of obstore; botocore's are from the search for credentials."""
    from obstore.exceptions import BaseError

    with translated(doing):
        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            raise _of_native(error, doing) from None


def _of_native(error: Exception, doing: str) -> DredgeError:
    # obstore has the status, code and message only in the text of its error.
    from obstore import exceptions

    text = str(error)
    status = _STATUS.search(text)
    if status is not None:
        found, told = _CODE.search(text), _MESSAGE.search(text)
        code = unescape(found[1]) if found else status[1]
        return by_code(
            code, int(status[1]), redact(f"{doing}: {code} {unescape(told[1]) if told else ''}".rstrip())
        )
    if "credential provider" in text:
        cause, words = cause_of_provider(text)
        return cause.error(redact(f"{doing}: {words}"))
    reason = _REASON.search(text)
    words = redact(f"{doing}: {reason[1] if reason else error}")
    if causes.is_certificate(text):
        return causes.CERTIFICATE.error(redact(f"{doing}: the certificate is not accepted"))
    if "BareRedirect" in text:
        return causes.REGION.error(words)
    if "kind: Connect" in text or _CONNECTING.search(text):
        return causes.UNREACHABLE.error(words)
    known = ValueError | exceptions.InvalidPathError | exceptions.UnknownConfigurationKeyError
    if isinstance(error, exceptions.UnauthenticatedError):
        return causes.CREDENTIALS.error(words)
    return (causes.UNUSABLE if isinstance(error, known) else causes.NO_ANSWER).error(words)


ANYWHERE = "us-east-1"
CHECKSUMS = ("request_checksum_calculation", "response_checksum_validation")
SWITCHES = ("use_fips_endpoint", "use_dualstack_endpoint")


@dataclass(frozen=True)
class Identity:
    """Credentials and authorities."""

    session: Any
    verify: bool | str


def resolved(options: StorageOptions) -> StorageOptions:
    """Add AWS's configuration of this machine: endpoint, region, addressing, switches."""
    if options.is_resolved:
        return options
    with checked("reading AWS's configuration"):
        core = _core_session(options)
        config: dict[str, Any] = json.loads(options.config or "{}")
        profile = core.get_scoped_config()
        found = {name: True for name in SWITCHES if core.get_config_variable(name)}
        found |= {
            name: core.get_config_variable(name)
            for name in CHECKSUMS
            if os.environ.get(f"AWS_{name.upper()}") or profile.get(name)
        }
        of_s3 = {**(core.get_config_variable("s3") or {}), **config.get("s3", {})}
        region = options.region or core.get_config_variable("region") or None
        return replace(
            options,
            endpoint_url=options.endpoint_url or _configured_endpoint(core, region),
            region=region,
            config=json.dumps(said) if (said := _merged(found, config, of_s3)) else None,
            is_resolved=True,
        )


def _merged(found: dict[str, Any], told: dict[str, Any], of_s3: dict[str, Any]) -> dict[str, Any]:
    return {**found, **told, **({"s3": of_s3} if of_s3 else {})}


def for_another_process(options: StorageOptions) -> StorageOptions:
    """The options for a child process on any machine: resolved, with the keys of a profile, but without credentials
    that must be renewed."""
    found = resolved(options)
    if found.access_key_id is not None:
        return found
    with checked("reading the profile's keys"):
        from botocore.credentials import RefreshableCredentials

        core = _core_session(replace(found, role=None))
        if found.profile is None and not _names_keys(core):
            return found
        keys = core.get_credentials()
        if keys is None or isinstance(keys, RefreshableCredentials):
            return found
        return _with_keys(found, keys)


def with_keys_now(options: StorageOptions) -> StorageOptions:
    """The options with the current key pair of their role or profile, which expires soon."""
    with checked("asking for the keys of a role or a profile"):
        keys = _core_session(options).get_credentials()
        if keys is None:
            raise ConfigError("the role or the profile of the connection has no keys. Nothing was changed.")
        return replace(_with_keys(options, keys), role=None)


def _with_keys(options: StorageOptions, keys: Any) -> StorageOptions:
    frozen = keys.get_frozen_credentials()
    return replace(
        options,
        profile=None,
        access_key_id=frozen.access_key,
        secret_access_key=frozen.secret_key,
        session_token=frozen.token,
    )


def _names_keys(core: Any) -> bool:
    # Asking the whole chain would also ask the machine's role.
    profiles = core.full_config.get("profiles", {})
    return "aws_access_key_id" in profiles.get(core.profile or "default", {})


@contextmanager
def checked(doing: str) -> Iterator[None]:
    """Raise ConfigError for errors in AWS's configuration, such as a value that is not a number."""
    with translated(doing):
        try:
            yield
        except (ValueError, TypeError, OSError) as error:
            raise ConfigError(
                f"{doing}: {type(error).__name__}: {error}. Check AWS's variables, its configuration files and the"
                " connection. Nothing was changed."
            ) from None


def identity_of(options: StorageOptions) -> Identity:
    """The credentials of options, and the authorities of this machine; raises ConfigError."""
    with checked("reading AWS's configuration"):
        core = _core_session(options)
        return Identity(core, _verify(options, core))


def _core_session(options: StorageOptions) -> Any:
    from botocore.session import Session

    # An empty variable is an absent one; botocore would look for a profile without a name.
    for name in [name for name, value in os.environ.items() if name.startswith("AWS_") and not value]:
        os.environ.pop(name, None)
    core = Session(profile=options.profile)
    core.register_component("data_loader", _loader())
    if options.access_key_id is not None:
        core.set_credentials(options.access_key_id, options.secret_access_key or "", options.session_token)
    if options.role is not None:
        _take_on(core, options)
    return core


@cache
def _loader() -> Any:
    # Each session would read the description of S3 again, which takes a third of a second.
    from botocore.loaders import Loader

    class Named(Loader):
        def list_available_services(self, type_name: str) -> list[str]:
            # botocore looks into the folders of all 400 services, to refuse a name that is not among them.
            folders = filter(os.path.isdir, self.search_paths)
            return sorted({name for folder in folders for name in os.listdir(folder)})

    paths = os.environ.get("AWS_DATA_PATH", "").split(os.pathsep)
    return Named([os.path.expanduser(os.path.expandvars(path)) for path in paths if path])


def _take_on(core: Any, options: StorageOptions) -> None:
    """Set the credentials of a role, which are renewed before they expire."""
    from botocore.credentials import (
        AssumeRoleCredentialFetcher,
        CredentialProvider,
        CredentialResolver,
        DeferredRefreshableCredentials,
    )

    source = core.get_credentials()
    if source is None:
        raise ConfigError("no credentials were found to assume the role of the connection")
    asked = json.loads(options.role or "{}")
    create = partial(
        core.create_client,
        region_name=options.region or core.get_config_variable("region") or ANYWHERE,
        endpoint_url=options.sts_endpoint,
        verify=_verify(options, core),
    )
    fetcher = AssumeRoleCredentialFetcher(create, source, asked.pop("RoleArn"), extra_args=asked)

    class Role(CredentialProvider):
        METHOD = "assume-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    core.register_component("credential_provider", CredentialResolver([Role()]))
    core._credentials = None  # those of the source, which the session remembers


def _verify(options: StorageOptions, core: Any) -> bool | str:
    # Authorities in the environment or a profile are this machine's, and are not passed to another.
    if not options.check_certificates:
        return False
    of_machine = core.get_config_variable("ca_bundle") or next(iter(ca_bundles(os.environ)), None)
    bundle: str | None = options.ca_bundle or of_machine
    check_ca_bundle(bundle, "S3")
    return bundle or True


def _configured_endpoint(core: Any, region: str | None) -> str | None:
    # An endpoint is configured if it differs from that of a client without configuration.
    from botocore.config import Config

    only_told: Any = {"ignore_configured_endpoint_urls": True}
    plain = core.create_client("s3", region or ANYWHERE, config=Config(**only_told))
    found: str = core.create_client("s3", region or ANYWHERE).meta.endpoint_url
    return found if found != plain.meta.endpoint_url else None
