"""Object stores of a task: connections, or the worker's own credentials."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.log import mask_secret

from airflow_dredge.operators.hooks.clouds import AZURE_TYPE, GOOGLE_TYPE, azure_options, google_options
from airflow_dredge.operators.hooks.connections import UnreadableError, find_connection
from dredge.causes import CREDENTIALS, UNUSABLE, cause_of_code, cause_without_answer
from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.process import environment
from dredge.storage import StorageOptions, environment_of_child

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dredge.storage.schemes import Driver


@contextmanager
def tasks_environment(
    options: StorageOptions | None, more: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Set the environment of a step's tasks in the worker: access to the object store, and more variables."""
    variables = (environment_of_child(options) if options is not None else {}) | dict(more or {})
    with environment(variables):
        yield


log = logging.getLogger(__name__)

GOOGLE_DEFAULT = "google_cloud_default"
AZURE_DEFAULT = "wasb_default"
AWS_DEFAULT = "aws_default"
"""The providers' default connections."""

_BY_KEYS = "assume_role"
_OWN_CREDENTIALS = ("aws_access_key_id", "role_arn", "profile_name", "session_kwargs", "assume_role_method")


def storage_options(aws_conn_id: str | None) -> StorageOptions:
    """Return the options for access to object stores.

    A missing ``aws_default``, None, and a connection without credentials leave S3 to the environment and to
    the machine's role; local folders need none. Google Cloud Storage and Azure use the connections
    ``google_cloud_default`` and ``wasb_default`` if they exist (Azure with the extra ``azure``). If the
    lookup of a default connection fails, its kind of store cannot be opened.

    :param aws_conn_id: connection of type ``aws`` (extra ``endpoint_url``, ``region_name``),
        ``google_cloud_platform`` or ``wasb``
    """
    own = StorageOptions.from_env()
    options = _with_default(own, GOOGLE_DEFAULT, GOOGLE_TYPE)
    # Not at module level: each parse of DAG files would load pyarrow.
    from dredge.storage.azure.clients import is_installed

    if is_installed():
        options = _with_default(options, AZURE_DEFAULT, AZURE_TYPE)
    if not aws_conn_id:
        return options
    try:
        connection = find_connection(aws_conn_id)
    except DredgeError as error:
        if aws_conn_id != AWS_DEFAULT:
            raise
        return _without(options, error, "s3", "gcs", "azure")
    if connection is None:
        if aws_conn_id != AWS_DEFAULT:
            raise ConfigError(
                f"the connection {aws_conn_id!r} does not exist. Nothing was changed. Create it, or set no connection"
                " to use the worker's own credentials."
            )
        log.info("No connection %s: object stores use the worker's own credentials", aws_conn_id)
        return options

    if connection.conn_type in (GOOGLE_TYPE, AZURE_TYPE):
        return _with_connection(options, own, connection)
    return _with_aws(options, connection)


def _with_aws(options: StorageOptions, connection: Connection) -> StorageOptions:
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook
    except ImportError as error:
        raise UNUSABLE.error(
            f"the AWS connection {connection.conn_id!r} needs Airflow's Amazon provider ({type(error).__name__})",
            "Install apache-airflow-providers-amazon. Nothing was changed.",
        ) from None

    class Hook(AwsGenericHook[Any]):
        """Uses the found connection: a second lookup could fail, and the hook would continue without one."""

        @classmethod
        def get_connection(cls, conn_id: str) -> Connection:
            return connection

    try:
        return _with_hook(options, connection, Hook(aws_conn_id=connection.conn_id, client_type="s3"))
    except DredgeError:
        raise
    except Exception as error:
        # The error text contains values of the connection, and a log shows causes.
        raise _aws_error(connection.conn_id, error) from None


def _aws_error(conn_id: str, error: Exception) -> DredgeError:
    answer: Any = getattr(error, "response", None)
    if isinstance(answer, dict) and "Error" in answer:
        code = str(answer["Error"].get("Code") or "")
        cause = (
            cause_of_code(code, answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) or CREDENTIALS
        )
        asked = f"{getattr(error, 'operation_name', '')}: {code}"
    else:
        is_aws = type(error).__module__.partition(".")[0] in ("botocore", "urllib3")
        cause, asked = (cause_without_answer(error) if is_aws else UNUSABLE), type(error).__name__
    return cause.error(
        f"the AWS connection {conn_id!r}: {asked}",
        ""
        if cause.family is UnavailableError
        else "Check its role, profile, region and endpoint. Nothing was changed.",
    )


def _with_hook(options: StorageOptions, connection: Connection, hook: Any) -> StorageOptions:
    settings, extra = hook.conn_config, connection.extra_dejson
    options = replace(
        options,
        endpoint_url=settings.get_service_endpoint_url("s3") or options.endpoint_url,
        region=hook.region_name or options.region,
        ca_bundle=settings.verify if isinstance(settings.verify, str) else options.ca_bundle,
        check_certificates=settings.verify is not False,
        path_style=None if _addressing(extra) else options.path_style,
        config=json.dumps(extra["config_kwargs"]) if extra.get("config_kwargs") else options.config,
    )
    if settings.assume_role_method in {None, _BY_KEYS} and (settings.role_arn or settings.profile_name):
        return _with_renewed(options, settings)
    if not connection.login and not any(connection.extra_dejson.get(name) for name in _OWN_CREDENTIALS):
        return options
    keys = hook.get_credentials()  # also masks them in the log
    return replace(
        options,
        access_key_id=keys.access_key,
        secret_access_key=keys.secret_key,
        session_token=keys.token,
    )


def _addressing(extra: dict[str, Any]) -> Any:
    return ((extra.get("config_kwargs") or {}).get("s3") or {}).get("addressing_style")


def with_key_pair(options: StorageOptions) -> StorageOptions:
    """Return the options with the current key pair of the role or profile, for clients that accept only keys."""
    if options.role is None and options.profile is None:
        return options
    from dredge.storage.s3.resolving import with_keys_now

    found = with_keys_now(options)
    for secret in (found.secret_access_key, found.session_token):
        if secret:
            mask_secret(secret)
    return found


def _with_renewed(options: StorageOptions, settings: Any) -> StorageOptions:
    """Add a role or a profile: each process fetches and renews its own credentials."""
    if settings.aws_access_key_id:
        options = replace(
            options,
            access_key_id=settings.aws_access_key_id,
            secret_access_key=settings.aws_secret_access_key,
            session_token=settings.aws_session_token,
        )
    elif settings.profile_name:
        options = replace(
            options,
            profile=settings.profile_name,
            access_key_id=None,
            secret_access_key=None,
            session_token=None,
        )
    if not settings.role_arn:
        return options
    name = re.sub(r"[^\w+=,.@-]", "_", f"Airflow_{settings.conn_id}", flags=re.ASCII)[:64]
    asked = {"RoleSessionName": name, **settings.assume_role_kwargs, "RoleArn": settings.role_arn}
    return replace(
        options,
        role=json.dumps(asked),
        sts_endpoint=settings.get_service_endpoint_url("sts", sts_connection_assume=True),
    )


def _with_connection(options: StorageOptions, own: StorageOptions, connection: Connection) -> StorageOptions:
    if connection.conn_type == GOOGLE_TYPE:
        known = replace(options, gcs=google_options(connection.extra_dejson, own.gcs))
        return _with(known, "gcs")
    return _with(replace(options, azure=azure_options(connection, own.azure)), "azure")


def _with(options: StorageOptions, driver: Driver) -> StorageOptions:
    return replace(options, unknown=tuple(item for item in options.unknown if item[0] != driver))


def _with_default(options: StorageOptions, conn_id: str, conn_type: str) -> StorageOptions:
    """Add a default connection. An invalid one may exist for another purpose, so it only causes a warning."""
    try:
        connection = find_connection(conn_id)
        if connection is None:
            log.info("No connection %s: its kind of store uses the worker's own credentials", conn_id)
            return options
        if connection.conn_type != conn_type:
            return options
        return _with_connection(options, options, connection)
    except (UnavailableError, UnreadableError) as error:
        return _without(options, error, "gcs" if conn_type == GOOGLE_TYPE else "azure")
    except ConfigError as error:
        log.warning("Connection %s is not used: %s", conn_id, error)
        return options


def _without(options: StorageOptions, error: DredgeError, *drivers: Driver) -> StorageOptions:
    """Block a kind of store: the worker's own credentials may have other rights, or reach another store."""
    log.warning("%s", error)
    return replace(options, unknown=(*options.unknown, *((driver, error) for driver in drivers)))
