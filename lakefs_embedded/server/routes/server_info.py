"""Routes of the server itself: health, setup, login, configuration, statistics."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import server_info
from lakefs_embedded.server.operations import AUTHENTICATED, PUBLIC, Operation, any_resource

_READ_CONFIG = any_resource(Action.READ_CONFIG)

SERVER_INFO: tuple[Operation, ...] = (
    Operation("GET", "/healthcheck", server_info.health, PUBLIC),
    Operation("GET", "/setup_lakefs", server_info.get_setup_state, PUBLIC),
    Operation("POST", "/setup_lakefs", server_info.setup, PUBLIC, schemas.SETUP),
    Operation("POST", "/auth/login", server_info.login, PUBLIC, schemas.LOGIN),
    Operation("GET", "/auth/capabilities", server_info.get_auth_capabilities, PUBLIC),
    Operation("GET", "/usage-report/summary", server_info.get_usage_report_summary, AUTHENTICATED),
    Operation("GET", "/user", server_info.get_user, AUTHENTICATED),
    Operation("GET", "/config", server_info.get_config, AUTHENTICATED),
    Operation("GET", "/config/storage", server_info.get_storage_config, _READ_CONFIG),
    Operation("GET", "/config/version", server_info.get_version, AUTHENTICATED),
    Operation("GET", "/config/garbage-collection", server_info.get_garbage_collection_config, AUTHENTICATED),
    Operation("POST", "/statistics", server_info.post_statistics, AUTHENTICATED, schemas.STATISTICS),
)
