"""What a connection of type ``google_cloud_platform`` says about Google Cloud Storage.

Its fields are read here, so that the provider (which brings a hundred of Google's clients) need not be installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.providers.common.compat.sdk import mask_secret

from dredge.errors import ConfigError
from dredge.storage.options import GcsOptions

CONN_TYPE = "google_cloud_platform"
_OLD_PREFIX = "extra__google_cloud_platform__"
_NOT_TAKEN = ("key_secret_name", "impersonation_chain", "idp_issuer_url", "is_anonymous")


def google_options(extra: Mapping[str, Any], options: GcsOptions) -> GcsOptions:
    """Return the options that a connection describes; what it leaves open stays as it is.

    :param extra: of the connection; names may have the prefix of older providers
    :param options: of the environment
    :raises ConfigError: the connection asks for an identity that is not supported, so that another one would be taken,
        or its key is none
    """
    fields = {name.removeprefix(_OLD_PREFIX): value for name, value in extra.items() if value}
    refused = sorted(fields.keys() & set(_NOT_TAKEN))
    if refused:
        raise ConfigError(
            f"the Google connection has {', '.join(refused)}, which Dredge does not support: give a key (keyfile_dict,"
            " key_path), a credential_config_file, or leave the identity to the machine. Nothing was touched."
        )
    key = fields.get("keyfile_dict") or fields.get("credential_config_file")
    file = fields.get("key_path")
    if isinstance(key, str) and not key.lstrip().startswith("{"):
        key, file = (None, key) if "keyfile_dict" not in fields else (key, file)
    if key is not None or file is not None:
        text = json.dumps(key) if isinstance(key, dict) else key
        _hide(text)
        options = replace(options, credentials_json=text, credentials_file=file)
    return replace(options, project=fields.get("project") or options.project)


def _hide(text: str | None) -> None:
    """Keep a key out of the logs, whole and in its parts."""
    if text is None:
        return
    mask_secret(text)
    try:
        found = json.loads(text)
    except ValueError:
        return
    for name in ("private_key", "private_key_id", "refresh_token", "client_secret"):
        if isinstance(found, dict) and isinstance(found.get(name), str):
            mask_secret(found[name])
