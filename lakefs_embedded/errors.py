"""The errors of lakeFS's data model, each with the HTTP status and the text that a real server answers.

    DredgeError
    ├── RefusedError       BadRequestError (400) · ForbiddenError (403) · GoneError (410) ·
    │                      UnsupportedError (501)
    ├── UnavailableError   TooManyTriesError (429)
    ├── NotFoundError      MissingError (404)
    └── ConflictError      NotUniqueError · MergeConflictError · RevertParentError (409) ·
                           PreconditionError (412) · LostRaceError (500)

`str(error)` is the message of the API's error body, `status` its code, so a server needs no table of its own.

Source: lakeFS pkg/graveler/errors.go, pkg/api/apierrors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from dredge.errors import ConflictError, DredgeError, NotFoundError, RefusedError, UnavailableError


class GravelerError(DredgeError):
    """An operation that a rule of the data model forbids.

    Args:
        message: the text of the API's answer; each class has a default.
    """

    status: ClassVar[int] = 500
    default: ClassVar[str] = "internal error"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(self.default if message is None else message)


@contextmanager
def described(doing: str) -> Iterator[None]:
    """Put what was being done before the text of an error of the data model: `update branch main: no changes`.

    Class and status stay.
    """
    try:
        yield
    except GravelerError as error:
        raise type(error)(f"{doing}: {error}") from error


# --- 404 ---------------------------------------------------------------------------------------------------


class MissingError(GravelerError, NotFoundError):
    """Something named in a request does not exist."""

    status = 404
    default = "not found"


class RepositoryNotFoundError(MissingError):
    """No repository of that name."""

    default = "repository not found"


class BranchNotFoundError(MissingError):
    """No branch of that name."""

    default = "branch not found"


class CommitNotFoundError(MissingError):
    """No commit with that id."""

    default = "commit not found"


class TagNotFoundError(MissingError):
    """No tag of that name."""

    default = "tag not found"


class RefNotFoundError(MissingError):
    """A ref expression that names no branch, tag or commit."""

    default = "not found"


class RefAmbiguousError(MissingError):
    """Several commit ids begin with the given prefix."""

    default = "reference is ambiguous: not found"


class PathNotFoundError(MissingError):
    """No object at that path of the ref."""

    default = "not found"


class RulesNotFoundError(MissingError):
    """The repository has no garbage collection rules."""

    default = "not found"


class TaskNotFoundError(MissingError):
    """No such task: it never existed, or it has been purged."""

    default = "not found"


# --- 400 ---------------------------------------------------------------------------------------------------


class BadRequestError(GravelerError, RefusedError):
    """The request cannot be carried out as it stands, now or later."""

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
    """The branch has uncommitted changes, and the operation requires that it has none."""

    default = "uncommitted changes (dirty branch)"


class InvalidRefError(BadRequestError):
    """A ref expression that cannot be parsed, or that may not be used here."""

    default = "ref: invalid value: validation error"


class StagingRefError(BadRequestError):
    """`branch$` was used where a commit is needed."""

    default = "reference to staging area with $ is not a commit"


class ParentNumberError(BadRequestError):
    """The commit has no parent with that number, or has several and none was named."""

    default = "given commit does not have the given parent number"


class LinkAddressError(BadRequestError):
    """A physical address that was not handed out for this path, or has expired."""

    default = "link address invalid"


class ContinuationTokenError(BadRequestError):
    """A prepare token that this server did not write."""

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
    """A protection rule names the branch."""

    default = "cannot write to protected branch"


class DefaultBranchError(ForbiddenError):
    """The default branch cannot be deleted."""

    default = "cannot delete repository default branch"


class GoneError(GravelerError, RefusedError):
    """The resource existed and can no longer be used."""

    status = 410
    default = "gone"


class RepositoryInDeletionError(GoneError):
    """A deletion of the repository has begun and not ended; the only thing possible is to delete it again."""

    default = "repository in deletion"


class DataNotFoundError(GoneError, NotFoundError):
    """The path exists but its object does not: the bytes were removed behind lakeFS's back."""

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
    """A revert of a merge commit that does not say relative to which parent."""

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
    """Another request changed the same record; lakeFS answers as for an internal error."""

    status = 500
    default = "predicate failed"
