"""Events that a repository's own hooks run on.

A repository asks for hooks by files in it (`_lakefs_actions/…`), each with the events that it is for:

    name: checks
    on:
      pre-merge: {branches: [main]}
    hooks: [...]

Services announce each change twice, before and after it, through `HookedChange`. Who listens is a `Hooks`:
`dredge.graveler.actions.Actions`.

Source: lakeFS pkg/graveler/hooks_handler.go, pkg/graveler/graveler.go.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from dredge.graveler.refs.records import Commit, Repository


class EventType(StrEnum):
    """Names of events as action files have them."""

    PREPARE_COMMIT = "prepare-commit"
    PRE_COMMIT = "pre-commit"
    POST_COMMIT = "post-commit"
    PRE_MERGE = "pre-merge"
    POST_MERGE = "post-merge"
    PRE_CREATE_TAG = "pre-create-tag"
    POST_CREATE_TAG = "post-create-tag"
    PRE_DELETE_TAG = "pre-delete-tag"
    POST_DELETE_TAG = "post-delete-tag"
    PRE_CREATE_BRANCH = "pre-create-branch"
    POST_CREATE_BRANCH = "post-create-branch"
    PRE_DELETE_BRANCH = "pre-delete-branch"
    POST_DELETE_BRANCH = "post-delete-branch"
    PRE_REVERT = "pre-revert"
    POST_REVERT = "post-revert"
    PRE_CHERRY_PICK = "pre-cherry-pick"
    POST_CHERRY_PICK = "post-cherry-pick"

    @property
    def afterwards(self) -> EventType:
        """The event after the change, of one before it."""
        return _AFTERWARDS[self]

    @property
    def concerns_tag(self) -> bool:
        """Whether it is about a tag, not about a branch."""
        return self.endswith("-tag")


_AFTERWARDS = {
    EventType.PRE_COMMIT: EventType.POST_COMMIT,
    EventType.PRE_MERGE: EventType.POST_MERGE,
    EventType.PRE_CREATE_TAG: EventType.POST_CREATE_TAG,
    EventType.PRE_DELETE_TAG: EventType.POST_DELETE_TAG,
    EventType.PRE_CREATE_BRANCH: EventType.POST_CREATE_BRANCH,
    EventType.PRE_DELETE_BRANCH: EventType.POST_DELETE_BRANCH,
    EventType.PRE_REVERT: EventType.POST_REVERT,
    EventType.PRE_CHERRY_PICK: EventType.POST_CHERRY_PICK,
}


@dataclass(frozen=True, slots=True)
class Event:
    """What is about to happen, or has happened.

    Attributes:
        type: its name.
        repository: the repository.
        source: ref expression; the action files of this ref count, staged ones too where it is a branch.
        branch: name of the branch that changes; for a merge that is the destination.
        tag: name of the tag that is created or deleted.
        commit: the new commit as far as it is known; before a commit it has neither content nor id.
        commit_id: id of the commit that the event is about; "" where there is none yet.
        merge_source: what is merged, as the caller named it.
    """

    type: EventType
    repository: Repository
    source: str
    branch: str = ""
    tag: str = ""
    commit: Commit | None = None
    commit_id: str = ""
    merge_source: str = ""


class Hooks(Protocol):
    """Runs hooks."""

    def before(self, event: Event) -> str:
        """Run those that must approve a change; raises to refuse it, and then nothing is changed.

        Returns:
            Id of the run.
        """

    def after(self, event: Event, run_before: str) -> None:
        """Run those that want to know of a change. Must not raise: it has happened.

        Args:
            event: the change.
            run_before: id of the run that approved it.
        """


class HookedChange:
    """One change and its hooks.

    Args:
        hooks: runs them.
        event: the event before the change.
    """

    def __init__(self, hooks: Hooks, event: Event) -> None:
        self._hooks = hooks
        self._event = event
        self._run_before = ""

    def before(self, commit: Commit | None = None, *, with_id: bool = False) -> None:
        """Ask whether the change may be made. A change that is tried again asks again.

        Args:
            commit: the commit that will be made.
            with_id: its record has been written, so its id may be told.

        Raises:
            HookAbortedError: 412, a hook failed.
            ActionFileError: 500, an action file cannot be used.
        """
        event = self._event
        if commit is not None:
            event = replace(event, commit=commit, commit_id=commit.id if with_id else "")
        self._run_before = self._hooks.before(event)

    def after(self, commit: Commit | None = None) -> None:
        """Tell that the change has been made.

        Args:
            commit: the commit that was made; its action files count.
        """
        event = replace(self._event, type=self._event.type.afterwards)
        if commit is not None:
            event = replace(event, source=commit.id, commit=commit, commit_id=commit.id)
        self._hooks.after(event, self._run_before)
