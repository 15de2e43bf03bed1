"""The server itself: health, setup, login, configuration, statistics."""

from typing import Any

from starlette.responses import Response

from lakefs_embedded.errors import UnauthorizedError
from lakefs_embedded.server import responses, serializers
from lakefs_embedded.server.authentication import COOKIE
from lakefs_embedded.server.requests import ApiRequest
from lakefs_embedded.server.responses import RequestError

# The lakeFS release whose API, file formats and behaviour this server reproduces.
LAKEFS_VERSION = "1.84.0"


def health(request: ApiRequest) -> Response:
    """GET /healthcheck."""
    return responses.empty(204)


def get_setup_state(request: ApiRequest) -> Response:
    """GET /setup_lakefs."""
    return responses.json(
        200,
        {
            "comm_prefs_missing": False,
            "login_config": {
                "RBAC": request.backend.settings.rbac,
                "fallback_login_label": "",
                "fallback_login_url": "",
                "login_cookie_names": ["internal_auth_session"],
                "login_failed_message": "The credentials don't match.",
                "login_url": "",
                "login_url_method": "none",
                "logout_url": "/logout",
            },
            "state": "initialized" if request.backend.accounts.initialized else "not_initialized",
        },
    )


def setup(request: ApiRequest) -> Response:
    """POST /setup_lakefs: creates the first user; the only response with its secret."""
    if not request.body["username"]:
        raise RequestError("empty user display name")
    key = request.body.get("key")
    pair = (key["access_key_id"], key["secret_access_key"]) if key else None
    credential = request.backend.accounts.setup(request.body["username"], pair)
    return responses.json(200, serializers.credential_with_secret(credential))


def login(request: ApiRequest) -> Response:
    """POST /auth/login: the token, in the body and as the session cookie for browsers."""
    pair = request.body["access_key_id"], request.body["secret_access_key"]
    token, expires = request.backend.authenticator.login(*pair)
    response = responses.json(200, {"token": token, "token_expiration": serializers.seconds(expires)})
    response.set_cookie(COOKIE, token, expires=expires, httponly=True, samesite="strict")
    return response


def get_user(request: ApiRequest) -> Response:
    """GET /user: the authenticated user; its id replaces a missing friendly name."""
    if request.user is None:
        raise UnauthorizedError
    fields = {"friendly_name": request.user.name, **serializers.user(request.user)}
    return responses.json(200, {"user": dict(sorted(fields.items()))})


def get_config(request: ApiRequest) -> Response:
    """GET /config."""
    return responses.json(
        200,
        {
            "capabilities_config": {},
            "storage_config": _storage_config(request),
            "storage_config_list": [],
            "ui_config": {},
            "version_config": _version_config(),
        },
    )


def get_storage_config(request: ApiRequest) -> Response:
    """GET /config/storage (deprecated)."""
    return responses.json(200, _storage_config(request))


def get_version(request: ApiRequest) -> Response:
    """GET /config/version (deprecated)."""
    return responses.json(200, _version_config())


def get_garbage_collection_config(request: ApiRequest) -> Response:
    """GET /config/garbage-collection."""
    expiry = request.backend.settings.catalog.link_expiry
    return responses.json(200, {"grace_period": int(expiry.total_seconds())})


def get_auth_capabilities(request: ApiRequest) -> Response:
    """GET /auth/capabilities: users are created, never invited by mail."""
    return responses.json(200, {"invite_user": False})


def get_usage_report_summary(request: ApiRequest) -> Response:
    """GET /usage-report/summary: requests by month of the whole installation, as text if the client asks for it."""
    usage = request.backend.usage
    if request.headers.get("accept") == "text/plain":
        lines = [f"{year}-{month:02}: {count:12}" for year, month, count in usage.months()]
        head = f"Usage for installation ID: {usage.installation_id}"
        return responses.text(200, "\n".join([head, *lines, ""]))
    reports = [{"count": count, "month": month, "year": year} for year, month, count in usage.months()]
    return responses.json(200, {"installation_id": usage.installation_id, "reports": reports})


def post_statistics(request: ApiRequest) -> Response:
    """POST /statistics: validated and discarded."""
    for event in request.body["events"]:
        for name in ("class", "name"):
            if not event[name]:
                raise RequestError(f"invalid value: {name} is required")
        if event["count"] < 0:
            raise RequestError("invalid value: count must be a non-negative integer")
    return responses.empty()


def _version_config() -> dict[str, Any]:
    return {"version": LAKEFS_VERSION, "version_context": "lakeFS"}


def _storage_config(request: ApiRequest) -> dict[str, Any]:
    namespaces = request.backend.namespaces
    return {
        "blockstore_description": "",
        "blockstore_id": "",
        "blockstore_namespace_ValidityRegex": namespaces.pattern,
        "blockstore_namespace_example": namespaces.example,
        "blockstore_type": namespaces.blockstore,
        "default_namespace_prefix": "",
        "import_support": namespaces.can_import,
        "import_validity_regex": namespaces.pattern,
        "pre_sign_multipart_upload": False,
        "pre_sign_support": request.backend.settings.signs_urls,
        "pre_sign_support_ui": False,
    }
