"""The errors of lakeFS's data model and of its users, with the HTTP status and message of a real server.

    DredgeError
    ├── RefusedError       BadRequestError (400) · ForbiddenError (403) · GoneError (410) ·
    │                      UnsupportedError (501) · UnauthorizedError (401)
    ├── UnavailableError   TooManyTriesError (429)
    ├── NotFoundError      MissingError (404)
    └── ConflictError      NotUniqueError · MergeConflictError · RevertParentError (409) ·
                           PreconditionError (412) · LostRaceError (500)

`str(error)` is the message of the API's error body, `status` its code. As in lakeFS a missing permission is a 401 too,
not a 403.

Source: lakeFS pkg/graveler/errors.go, pkg/auth/errors.go, pkg/api/apierrors, pkg/api/controller.go (authorizeCallback).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from dredge.errors import ConflictError, DredgeError, NotFoundError, RefusedError, UnavailableError


class GravelerError(DredgeError):
    """An operation against a rule of the data model. Each class has a default message."""

    status: ClassVar[int] = 500
    default: ClassVar[str] = "internal error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.default if message is None else message)


@contextmanager
def described(doing: str) -> Iterator[None]:
    """Prefix errors of the data model with the operation: `update branch main: no changes`."""
    try:
        yield
    except GravelerError as error:
        raise type(error)(f"{doing}: {error}") from error


# --- 404 ---------------------------------------------------------------------------------------------------


class MissingError(GravelerError, NotFoundError):
    """A named resource of the request does not exist."""

    status = 404
    default = "not found"


class RepositoryNotFoundError(MissingError):
    """No such repository."""

    default = "repository not found"


class BranchNotFoundError(MissingError):
    """No such branch."""

    default = "branch not found"


class CommitNotFoundError(MissingError):
    """No such commit."""

    default = "commit not found"


class TagNotFoundError(MissingError):
    """No such tag."""

    default = "tag not found"


class RefNotFoundError(MissingError):
    """No branch, tag or commit matches the ref expression."""

    default = "not found"


class RefAmbiguousError(MissingError):
    """Several commit ids begin with the given prefix."""

    default = "reference is ambiguous: not found"


class PathNotFoundError(MissingError):
    """No object at this path of the ref."""

    default = "not found"


class RulesNotFoundError(MissingError):
    """The repository has no garbage collection rules."""

    default = "not found"


class TaskNotFoundError(MissingError):
    """No such task: it never existed, or it was purged."""

    default = "not found"


# --- 400 ---------------------------------------------------------------------------------------------------


class BadRequestError(GravelerError, RefusedError):
    """The request is invalid; a retry does not help."""

    status = 400
    default = "validation error"


class InvalidValueError(BadRequestError):
    """A name, path, ref or argument is malformed."""

    default = "invalid value: validation error"


class NoChangesError(BadRequestError):
    """There is nothing to commit or to merge."""

    default = "no changes"


class NoMergeBaseError(BadRequestError):
    """The two refs have no common ancestor."""

    default = "no merge base"


class DirtyBranchError(BadRequestError):
    """The branch has uncommitted changes, and the operation needs a clean branch."""

    default = "uncommitted changes (dirty branch)"


class InvalidRefError(BadRequestError):
    """An invalid ref expression, or one not allowed here."""

    default = "ref: invalid value: validation error"


class StagingRefError(BadRequestError):
    """`branch$` is not a commit."""

    default = "reference to staging area with $ is not a commit"


class ParentNumberError(BadRequestError):
    """The commit has no such parent, or several and no number was given."""

    default = "given commit does not have the given parent number"


class LinkAddressError(BadRequestError):
    """A physical address not handed out for this path, or expired."""

    default = "link address invalid"


class ContinuationTokenError(BadRequestError):
    """A prepare token not written by this server."""

    default = "invalid continuation token"


class NamespaceInUseError(BadRequestError):
    """The storage namespace belongs to another repository."""

    default = "failed to create repository: storage namespace already in use"


# --- 403, 410 ----------------------------------------------------------------------------------------------


class ForbiddenError(GravelerError, RefusedError):
    """The operation is not allowed."""

    status = 403
    default = "forbidden"


class ReadOnlyError(ForbiddenError):
    """The repository is read only."""

    default = "read-only repository"


class ProtectedBranchError(ForbiddenError):
    """The branch is protected."""

    default = "cannot write to protected branch"


class DefaultBranchError(ForbiddenError):
    """The default branch cannot be deleted."""

    default = "cannot delete repository default branch"


class GoneError(GravelerError, RefusedError):
    """The resource existed and can no longer be used."""

    status = 410
    default = "gone"


class RepositoryInDeletionError(GoneError):
    """An unfinished deletion of the repository; only another deletion is possible."""

    default = "repository in deletion"


class DataNotFoundError(GoneError, NotFoundError):
    """The path exists but its object was removed from the store."""

    default = "No data"


# --- 409, 412, 429, 501 ------------------------------------------------------------------------------------


class NotUniqueError(GravelerError, ConflictError):
    """The name is taken."""

    status = 409
    default = "not unique"


class BranchExistsError(NotUniqueError):
    """A branch of that name exists."""

    default = "branch already exists: not unique"


class TagExistsError(NotUniqueError):
    """A tag of that name exists."""

    default = "tag already exists: not unique"


class MergeConflictError(GravelerError, ConflictError):
    """Both sides changed the same path; nothing was merged."""

    status = 409
    default = "conflict found"


class RevertParentError(GravelerError, ConflictError):
    """A revert of a merge commit without a parent number."""

    status = 409
    default = "must specify 1-based parent number for reverting merge commit"


class PreconditionError(GravelerError, ConflictError):
    """A condition of the request (If-None-Match, If-Match) does not hold."""

    status = 412
    default = "Precondition failed"


class TooManyTriesError(GravelerError, UnavailableError):
    """The branch changed during every try; the same call may succeed later."""

    status = 429
    default = "Too many attempts, try again later"


class UnsupportedError(GravelerError, RefusedError):
    """The embedded server does not support this operation."""

    status = 501
    default = "Not implemented"


# --- 500 ---------------------------------------------------------------------------------------------------


class LostRaceError(GravelerError, ConflictError):
    """A concurrent request changed the same record; lakeFS answers with an internal error."""

    status = 500
    default = "predicate failed"


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
