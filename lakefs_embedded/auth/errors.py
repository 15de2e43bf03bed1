"""Errors of authentication and authorization, each with the HTTP status and message of a real server.

    GravelerError
    ├── UnauthorizedError (401)   UnknownKeyError · InsufficientPermissionsError
    ├── MissingError (404)        UserNotFoundError · GroupNotFoundError · PolicyNotFoundError · …
    ├── NotUniqueError (409)      AlreadyExistsError · AlreadySetUpError
    └── BadRequestError (400)     InvalidNameError · InvalidPolicyError

As in lakeFS a missing permission is a 401 too, not a 403.

Source: lakeFS pkg/auth/errors.go, pkg/api/controller.go (authorizeCallback).
"""

from __future__ import annotations

from dredge.errors import RefusedError
from lakefs_embedded.errors import (
    ForbiddenError,
    GravelerError,
    InvalidValueError,
    MissingError,
    NotUniqueError,
)


class UnauthorizedError(GravelerError, RefusedError):
    """No or wrong credentials; the message is the same for both."""

    status = 401
    default = "error authenticating request"


class UnknownKeyError(UnauthorizedError):
    """No such access key, or its user was removed."""


class InsufficientPermissionsError(UnauthorizedError):
    """The user is authenticated but lacks a permission."""

    default = "insufficient permissions: not allowed"


class UserNotFoundError(MissingError):
    """No such user."""

    default = "user not found"


class GroupNotFoundError(MissingError):
    """No such group."""

    default = "group not found"


class PolicyNotFoundError(MissingError):
    """No such policy."""

    default = "policy not found"


class CredentialsNotFoundError(MissingError):
    """The user has no such access key."""

    default = "credentials not found"


class AlreadyExistsError(NotUniqueError):
    """The name is taken, or the two are linked already."""

    default = "Already exists"


class AlreadySetUpError(NotUniqueError):
    """The server has its first user; setting it up again is refused."""

    default = "lakeFS already initialized"


class InvalidNameError(InvalidValueError):
    """The name of a user, group or policy, or an access key id, is malformed."""

    default = "validation error"


class InvalidPolicyError(InvalidValueError):
    """A policy statement cannot be evaluated."""

    default = "validation error"


class OwnerError(ForbiddenError):
    """The server's own administrator cannot be removed."""

    default = "the server's own administrator cannot be removed"
