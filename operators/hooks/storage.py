"""How a task reaches object stores: by connections where there are some, else by the worker's own means."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.log import mask_secret

from airflow_dredge.operators.hooks import azure, google
from airflow_dredge.operators.hooks.finding import UnreadableError, find_connection
from dredge.causes import CREDENTIALS, UNUSABLE, cause_of_code, cause_without_answer
from dredge.errors import ConfigError, DredgeError, UnavailableError
from dredge.storage import StorageOptions
from dredge.storage.azure.clients import is_installed as is_azure_installed

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from dredge.storage.schemes import Driver

log = logging.getLogger(__name__)

GOOGLE_DEFAULT = "google_cloud_default"
AZURE_DEFAULT = "wasb_default"
AWS_DEFAULT = "aws_default"
"""The connections that the providers take when none is named."""

_BY_KEYS = "assume_role"
_OWN_CREDENTIALS = ("aws_access_key_id", "role_arn", "profile_name", "session_kwargs", "assume_role_method")


def storage_options(aws_conn_id: str | None) -> StorageOptions:
    """Return the options that a connection describes.

    :param aws_conn_id: connection of type ``aws``; its extra may have ``endpoint_url`` and ``region_name``.
        None, ``aws_default`` where it does not exist (local folders need none), and one without credentials leave
        those to the environment and to the machine's role. One of type ``google_cloud_platform`` or ``wasb`` is
        taken as well; else ``google_cloud_default`` says how Google Cloud Storage is reached, and ``wasb_default`` how
        Azure is, where there are such connections (and, for Azure, the extra ``azure`` is installed).
        Where Airflow cannot tell whether there is a default connection, stores that it may be about cannot be opened.
    :raises ConfigError: the connection that was named does not exist, or cannot be used
    :raises UnavailableError: Airflow cannot tell what the connection that was named says
    """
    own = StorageOptions.from_env()
    options = _with_default(own, GOOGLE_DEFAULT, google.CONN_TYPE)
    if is_azure_installed():
        options = _with_default(options, AZURE_DEFAULT, azure.CONN_TYPE)
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
                f"the connection {aws_conn_id!r} does not exist. Make it, or name none where the worker's own means are"
                " meant. Nothing was touched."
            )
        log.info("No connection %s: object stores are reached by the worker's own means", aws_conn_id)
        return options

    if connection.conn_type in (google.CONN_TYPE, azure.CONN_TYPE):
        return _with_connection(options, own, connection)
    return _with_aws(options, connection)


def _with_aws(options: StorageOptions, connection: Connection) -> StorageOptions:
    """Add what a connection says of S3."""
    try:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook
    except ImportError as error:
        raise UNUSABLE.error(
            f"the AWS connection {connection.conn_id!r} needs Airflow's provider of Amazon ({type(error).__name__})",
            "Install apache-airflow-providers-amazon. Nothing was touched.",
        ) from None

    class Hook(AwsGenericHook[Any]):
        """It would ask for the connection again, and go on without one when there is no answer."""

        @classmethod
        def get_connection(cls, conn_id: str) -> Connection:
            return connection

    try:
        return _with_hook(options, connection, Hook(aws_conn_id=connection.conn_id, client_type="s3"))
    except DredgeError:
        raise
    except Exception as error:
        # The words of AWS's client have values of the connection, and a log shows those of causes.
        raise _of_aws(connection.conn_id, error) from None


def _of_aws(conn_id: str, error: Exception) -> DredgeError:
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
        else "Check its role, profile, region and endpoint. Nothing was touched.",
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
    keys = hook.get_credentials()  # also hides them in the log
    return replace(
        options,
        access_key_id=keys.access_key,
        secret_access_key=keys.secret_key,
        session_token=keys.token,
    )


def _addressing(extra: dict[str, Any]) -> Any:
    return ((extra.get("config_kwargs") or {}).get("s3") or {}).get("addressing_style")


def with_key_pair(options: StorageOptions) -> StorageOptions:
    """Return the options with the key pair that their role or profile has at this moment, for who takes nothing else.

    :param options: of a connection
    :raises ConfigError: the role or the profile gives none
    :raises UnavailableError: STS does not answer
    """
    if options.role is None and options.profile is None:
        return options
    from dredge.storage.s3.resolving import with_keys_now

    found = with_keys_now(options)
    for secret in (found.secret_access_key, found.session_token):
        if secret:
            mask_secret(secret)
    return found


def _with_renewed(options: StorageOptions, settings: Any) -> StorageOptions:
    """Add a role or a profile: each process has its credentials for itself, and renews them in a run of any length."""
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
    """Add what a connection says of its store to what the environment says of it."""
    if connection.conn_type == google.CONN_TYPE:
        known = replace(options, gcs=google.google_options(connection.extra_dejson, own.gcs))
        return _with(known, "gcs")
    return _with(replace(options, azure=azure.azure_options(connection, own.azure)), "azure")


def _with(options: StorageOptions, driver: Driver) -> StorageOptions:
    return replace(options, unknown=tuple(item for item in options.unknown if item[0] != driver))


def _with_default(options: StorageOptions, conn_id: str, conn_type: str) -> StorageOptions:
    """Add what a default connection says. It may be there for something else, so that what is wrong with it matters
    only to who stores objects there, who finds the warning above the error."""
    try:
        connection = find_connection(conn_id)
        if connection is None:
            log.info("No connection %s: its kind of store is reached by the worker's own means", conn_id)
            return options
        if connection.conn_type != conn_type:
            return options
        return _with_connection(options, options, connection)
    except (UnavailableError, UnreadableError) as error:
        return _without(options, error, "gcs" if conn_type == google.CONN_TYPE else "azure")
    except ConfigError as error:
        log.warning("Connection %s is not used: %s", conn_id, error)
        return options


def _without(options: StorageOptions, error: DredgeError, *drivers: Driver) -> StorageOptions:
    """Note that nobody knows how stores are reached: by the worker's own means it may be with other rights, or another
    store of the same name."""
    log.warning("%s", error)
    return replace(options, unknown=(*options.unknown, *((driver, error) for driver in drivers)))
