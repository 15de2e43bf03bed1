"""Health, setup, login, configuration: what is about the server and not about a repository."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from typing import Any

from starlette.responses import Response

from dredge.auth import UnauthorizedError
from dredge.server import answers, shapes
from dredge.server.accounts import COOKIE
from dredge.server.calls import Call
from dredge.server.failures import RequestError

# The release whose API, files and behaviour this server has.
LAKEFS_VERSION = "1.84.0"


def health(call: Call) -> Response:
    """GET /healthcheck."""
    return answers.empty(204)


def get_setup_state(call: Call) -> Response:
    """GET /setup_lakefs."""
    return answers.answer(
        200,
        {
            "comm_prefs_missing": False,
            "login_config": {
                "RBAC": "none",
                "fallback_login_label": "",
                "fallback_login_url": "",
                "login_cookie_names": ["internal_auth_session"],
                "login_failed_message": "The credentials don't match.",
                "login_url": "",
                "login_url_method": "none",
                "logout_url": "/logout",
            },
            "state": "initialized" if call.backend.accounts.initialized else "not_initialized",
        },
    )


def setup(call: Call) -> Response:
    """POST /setup_lakefs: makes the first user, and shows its secret key this one time."""
    if not call.body["username"]:
        raise RequestError("empty user display name")
    key = call.body.get("key")
    pair = (key["access_key_id"], key["secret_access_key"]) if key else None
    made = call.backend.accounts.setup(call.body["username"], pair)
    return answers.answer(200, shapes.credential_with_secret(made))


def login(call: Call) -> Response:
    """POST /auth/login: the token, also as the session cookie that browsers send back."""
    pair = call.body["access_key_id"], call.body["secret_access_key"]
    token, expires = call.backend.authenticator.login(*pair)
    response = answers.answer(200, {"token": token, "token_expiration": shapes.seconds(expires)})
    response.set_cookie(COOKIE, token, expires=expires, httponly=True, samesite="strict")
    return response


def get_user(call: Call) -> Response:
    """GET /user: who asks; without a friendly name it is called by its id."""
    if call.user is None:
        raise UnauthorizedError
    shape = {"friendly_name": call.user.name, **shapes.user(call.user)}
    return answers.answer(200, {"user": dict(sorted(shape.items()))})


def get_config(call: Call) -> Response:
    """GET /config."""
    return answers.answer(
        200,
        {
            "capabilities_config": {},
            "storage_config": _storage_config(call),
            "storage_config_list": [],
            "ui_config": {},
            "version_config": _version_config(),
        },
    )


def get_storage_config(call: Call) -> Response:
    """GET /config/storage (deprecated)."""
    return answers.answer(200, _storage_config(call))


def get_version(call: Call) -> Response:
    """GET /config/version (deprecated)."""
    return answers.answer(200, _version_config())


def get_garbage_collection_config(call: Call) -> Response:
    """GET /config/garbage-collection."""
    expiry = call.backend.settings.catalog.link_expiry
    return answers.answer(200, {"grace_period": int(expiry.total_seconds())})


def post_statistics(call: Call) -> Response:
    """POST /statistics: taken and thrown away, nothing is counted or sent anywhere."""
    for event in call.body["events"]:
        for name in ("class", "name"):
            if not event[name]:
                raise RequestError(f"invalid value: {name} is required")
        if event["count"] < 0:
            raise RequestError("invalid value: count must be a non-negative integer")
    return answers.empty()


@cache
def _version_config() -> dict[str, Any]:
    return {"version": LAKEFS_VERSION, "version_context": f"Dredge {version('dredge')}, embedded lakeFS"}


def _storage_config(call: Call) -> dict[str, Any]:
    """Nothing is pre-signed here, so clients send bytes through the server."""
    namespaces = call.backend.namespaces
    return {
        "blockstore_description": "",
        "blockstore_id": "",
        "blockstore_namespace_ValidityRegex": namespaces.pattern,
        "blockstore_namespace_example": namespaces.example,
        "blockstore_type": namespaces.blockstore,
        "default_namespace_prefix": "",
        "import_support": namespaces.can_import,
        "import_validity_regex": namespaces.pattern,
        "pre_sign_multipart_upload": call.backend.settings.signs_parts,
        "pre_sign_support": False,
        "pre_sign_support_ui": False,
    }
