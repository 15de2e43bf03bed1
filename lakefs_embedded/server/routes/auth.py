"""Routes of users, credentials, groups and policies."""

from __future__ import annotations

from lakefs_embedded.auth import Action
from lakefs_embedded.server import operations as resources
from lakefs_embedded.server import schemas
from lakefs_embedded.server.handlers import auth as handlers
from lakefs_embedded.server.operations import Operation, any_resource, auth
from lakefs_embedded.server.routes.paths import GROUP, POLICY, USER

_LIST_USERS = any_resource(Action.LIST_USERS)
_CREATE_USER = auth(Action.CREATE_USER, "user/{.id}")
_READ_USER = auth(Action.READ_USER, resources.USER)
_DELETE_USER = auth(Action.DELETE_USER, resources.USER)
_LIST_CREDENTIALS = auth(Action.LIST_CREDENTIALS, resources.USER)
_CREATE_CREDENTIALS = auth(Action.CREATE_CREDENTIALS, resources.USER)
_READ_CREDENTIALS = auth(Action.READ_CREDENTIALS, resources.USER)
_DELETE_CREDENTIALS = auth(Action.DELETE_CREDENTIALS, resources.USER)
_LIST_GROUPS = any_resource(Action.LIST_GROUPS)
_CREATE_GROUP = auth(Action.CREATE_GROUP, "group/{.id}")
_READ_GROUP = auth(Action.READ_GROUP, resources.GROUP)
_DELETE_GROUP = auth(Action.DELETE_GROUP, resources.GROUP)
_ADD_MEMBER = auth(Action.ADD_GROUP_MEMBER, resources.GROUP)
_REMOVE_MEMBER = auth(Action.REMOVE_GROUP_MEMBER, resources.GROUP)
_LIST_POLICIES = any_resource(Action.LIST_POLICIES)
_CREATE_POLICY = auth(Action.CREATE_POLICY, "policy/{.id}")
_READ_POLICY = auth(Action.READ_POLICY, resources.POLICY)
_UPDATE_POLICY = auth(Action.UPDATE_POLICY, resources.POLICY)
_DELETE_POLICY = auth(Action.DELETE_POLICY, resources.POLICY)
_ATTACH_TO_USER = auth(Action.ATTACH_POLICY, resources.USER)
_DETACH_FROM_USER = auth(Action.DETACH_POLICY, resources.USER)
_ATTACH_TO_GROUP = auth(Action.ATTACH_POLICY, resources.GROUP)
_DETACH_FROM_GROUP = auth(Action.DETACH_POLICY, resources.GROUP)

_CREDENTIALS = USER + "/credentials"
_CREDENTIAL = _CREDENTIALS + "/{key}"
_MEMBER = GROUP + "/members/{user}"
_USER_POLICY = USER + "/policies/{policy}"
_GROUP_POLICY = GROUP + "/policies/{policy}"

WITHOUT_RBAC = frozenset({"list_users", "create_user", "get_named_user", "delete_user", "get_credentials"})
"""Calls of AUTH served with RBAC `none`; the others answer 501."""

AUTH: tuple[Operation, ...] = (
    # users and their credentials
    Operation("GET", "/auth/users", handlers.list_users, _LIST_USERS),
    Operation("POST", "/auth/users", handlers.create_user, _CREATE_USER, schemas.USER_CREATION),
    Operation("GET", USER, handlers.get_named_user, _READ_USER),
    Operation("DELETE", USER, handlers.delete_user, _DELETE_USER),
    Operation("GET", _CREDENTIALS, handlers.list_user_credentials, _LIST_CREDENTIALS),
    Operation("POST", _CREDENTIALS, handlers.create_credentials, _CREATE_CREDENTIALS),
    Operation("GET", _CREDENTIAL, handlers.get_credentials, _READ_CREDENTIALS),
    Operation("DELETE", _CREDENTIAL, handlers.delete_credentials, _DELETE_CREDENTIALS),
    Operation("GET", USER + "/groups", handlers.list_user_groups, _READ_USER),
    # groups and their members
    Operation("GET", "/auth/groups", handlers.list_groups, _LIST_GROUPS),
    Operation("POST", "/auth/groups", handlers.create_group, _CREATE_GROUP, schemas.GROUP_CREATION),
    Operation("GET", GROUP, handlers.get_group, _READ_GROUP),
    Operation("DELETE", GROUP, handlers.delete_group, _DELETE_GROUP),
    Operation("GET", GROUP + "/members", handlers.list_group_members, _READ_GROUP),
    Operation("PUT", _MEMBER, handlers.add_group_membership, _ADD_MEMBER),
    Operation("DELETE", _MEMBER, handlers.delete_group_membership, _REMOVE_MEMBER),
    # policies and their attachments
    Operation("GET", "/auth/policies", handlers.list_policies, _LIST_POLICIES),
    Operation("POST", "/auth/policies", handlers.create_policy, _CREATE_POLICY, schemas.POLICY),
    Operation("GET", POLICY, handlers.get_policy, _READ_POLICY),
    Operation("PUT", POLICY, handlers.update_policy, _UPDATE_POLICY, schemas.POLICY),
    Operation("DELETE", POLICY, handlers.delete_policy, _DELETE_POLICY),
    Operation("GET", USER + "/policies", handlers.list_user_policies, _READ_USER),
    Operation("PUT", _USER_POLICY, handlers.attach_policy_to_user, _ATTACH_TO_USER),
    Operation("DELETE", _USER_POLICY, handlers.detach_policy_from_user, _DETACH_FROM_USER),
    Operation("GET", GROUP + "/policies", handlers.list_group_policies, _READ_GROUP),
    Operation("PUT", _GROUP_POLICY, handlers.attach_policy_to_group, _ATTACH_TO_GROUP),
    Operation("DELETE", _GROUP_POLICY, handlers.detach_policy_from_group, _DETACH_FROM_GROUP),
)
