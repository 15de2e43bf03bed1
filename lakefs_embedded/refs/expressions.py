r"""Ref expressions: a ref, and steps from it.

    expression = base { modifier }
    base       = branch | tag | commit id | unique beginning of a commit id
    modifier   = "~" [n]   n-th ancestor along main parents, default 1
               | "^" [n]   n-th parent counted from 1, default 1; ^0 is the commit itself
               | "@"       the branch without staged changes
               | "$"       only staged changes of the branch; not allowed for a commit

A base is looked up as a full commit id, a branch, a tag, and the beginning of a commit id, in this order.
`@` and `$` must follow a branch directly.

Source: lakeFS pkg/graveler/ref/parse_ref.go, expand.go (behaviour only).
"""

import re
from dataclasses import dataclass

from dredge.lakefs.files.records import Branch, Repository
from lakefs_embedded.errors import (
    BranchNotFoundError,
    CommitNotFoundError,
    InvalidRefError,
    RefNotFoundError,
    StagingRefError,
    TagNotFoundError,
)
from lakefs_embedded.refs.branches import Branches, Tags
from lakefs_embedded.refs.commits import Commits, MistakenIds
from lakefs_embedded.refs.records import Commit, check_ref, is_commit_id

_EXPRESSION = re.compile(r"(?P<base>[^~^@$]+)(?P<modifiers>(?:[~^][0-9]*|[@$])*)")
_MODIFIER = re.compile(r"([~^@$])([0-9]*)")
_ID_PREFIX = re.compile(r"[0-9a-f]{1,64}")


@dataclass(frozen=True, slots=True)
class Expression:
    """A parsed expression: the base (branch, tag, or beginning of a commit id), and (sign, number) pairs in order."""

    base: str
    modifiers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of an expression.

    Args:
        commit_id: the commit; for a branch its head at the time of the look-up.
        branch: the branch, if its staged changes apply as well, or None.
        staging_only: the expression was `branch$`: only staged changes apply.
    """

    commit_id: str
    branch: str | None = None
    staging_only: bool = False


def parse(text: str) -> Expression:
    """Parse an expression."""
    check_ref(text)
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise InvalidRefError
    modifiers = tuple(
        (sign, int(number) if number else 1) for sign, number in _MODIFIER.findall(match["modifiers"])
    )
    if any(sign in "@$" for sign, _ in modifiers[1:]) or (len(modifiers) > 1 and modifiers[0][0] == "$"):
        raise InvalidRefError
    return Expression(match["base"], modifiers)


class Resolver:
    """Resolves ref expressions."""

    def __init__(self, branches: Branches, tags: Tags, commits: Commits, mistaken_ids: MistakenIds) -> None:
        self._branches = branches
        self._tags = tags
        self._commits = commits
        self._mistaken_ids = mistaken_ids

    def resolve(self, repository: Repository, text: str) -> Resolved:
        """Resolve an expression, or raise InvalidRefError (400) or a MissingError (404).

        The record of a plain branch may come from the cache: the reader's flow reads it again.
        """
        expression = parse(text)
        is_plain = not expression.modifiers or expression.modifiers[0][0] == "$"
        branch, commit_id = self._base(repository, expression.base, is_plain)
        if not expression.modifiers:
            return Resolved(commit_id, None if branch is None else branch.name)
        first = expression.modifiers[0][0]
        if first in "@$" and branch is None:
            raise InvalidRefError
        if first == "$":
            return Resolved(commit_id, expression.base, staging_only=True)
        for sign, number in expression.modifiers:
            commit_id = self._follow(repository, commit_id, sign, number)
        return Resolved(commit_id)

    def commit(self, repository: Repository, text: str) -> Commit:
        """Resolve an expression to a commit; for a branch its current head."""
        return self._commits.get(repository, self.commit_id(repository, text))

    def commit_id(self, repository: Repository, text: str) -> str:
        """Resolve an expression to a commit id, without reading the commit."""
        resolved = self.resolve(repository, text)
        if resolved.staging_only:
            raise StagingRefError
        if resolved.branch is None:
            return resolved.commit_id
        return self._branches.current(repository, resolved.branch).branch.commit_id

    def _base(self, repository: Repository, base: str, is_plain: bool) -> tuple[Branch | None, str]:
        if is_commit_id(base) and self._commits.exists(repository, base):
            return None, self._mistaken_ids.resolve(repository, base)
        try:
            read = self._branches.cached if is_plain else self._branches.current
            branch = read(repository, base).branch
        except BranchNotFoundError:
            pass
        else:
            return branch, branch.commit_id
        try:
            return None, self._tags.get(repository, base).commit_id
        except TagNotFoundError:
            pass
        if not _ID_PREFIX.fullmatch(base):
            raise RefNotFoundError
        return None, self._commits.find(repository, base).id

    def _follow(self, repository: Repository, commit_id: str, sign: str, number: int) -> str:
        if sign == "~":
            for _ in range(number):
                parent = self._commits.get(repository, commit_id).main_parent
                if parent is None:
                    raise CommitNotFoundError
                commit_id = parent
        elif sign == "^" and number:
            parents = self._commits.get(repository, commit_id).parents
            if number > len(parents):
                raise CommitNotFoundError
            commit_id = parents[number - 1]
        return commit_id
