"""Events that a repository's own hooks run on, and what this server does about them: it refuses.

A repository asks for hooks by files in it (`_lakefs_actions/*.yaml`), each with the events that it is for. This server
runs no hooks. A change that a hook would have had to approve is therefore refused with 501: to let it pass would say
that the hook had approved it. `Hooks` is the seam for an implementation: services call it before and after each change.

    name: checks
    on:
      pre-merge: {branches: [main]}
    hooks: [...]

Source: lakeFS pkg/graveler/hooks_handler.go, pkg/actions (behaviour only).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import yaml

from dredge.graveler.catalog.contents import Contents
from dredge.graveler.catalog.entries import decode_entry, path_text
from dredge.graveler.catalog.object_bytes import ObjectBytes
from dredge.graveler.committed import Value
from dredge.graveler.errors import UnsupportedError
from dredge.graveler.refs.branches import Branches
from dredge.graveler.refs.records import Repository

FOLDER = b"_lakefs_actions/"
_ENDINGS = (b".yaml", b".yml")


class ChangeKind(StrEnum):
    """What is about to happen, or has happened; the second half of an event's name in action files."""

    COMMIT = "commit"
    MERGE = "merge"
    REVERT = "revert"
    CHERRY_PICK = "cherry-pick"
    CREATE_BRANCH = "create-branch"
    DELETE_BRANCH = "delete-branch"
    CREATE_TAG = "create-tag"
    DELETE_TAG = "delete-tag"


@dataclass(frozen=True, slots=True)
class Event:
    """A change.

    Attributes:
        change: its kind.
        repository: the repository.
        ref: name of the branch or tag that changes.
        commit_id: commit whose action files count; "" for those of the branch itself, staged ones too.
    """

    change: ChangeKind
    repository: Repository
    ref: str
    commit_id: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The names under which action files ask for it."""
        names = {f"pre-{self.change}", f"post-{self.change}"}
        return frozenset(names | {"prepare-commit"} if self.change is ChangeKind.COMMIT else names)


class Hooks(Protocol):
    """Runs hooks."""

    def before(self, event: Event) -> None:
        """Run those that must approve a change; raises to refuse it, and nothing has been changed."""

    def after(self, event: Event) -> None:
        """Run those that want to know of a change. Must not raise: it has happened."""


class NoHooks:
    """Ignores action files."""

    def before(self, event: Event) -> None:
        """Do nothing."""

    def after(self, event: Event) -> None:
        """Do nothing."""


class RefusingHooks:
    """Refuses every change that a repository has a hook for.

    Args:
        branches: branch records.
        contents: what paths hold.
        object_bytes: reads action files.
    """

    def __init__(self, branches: Branches, contents: Contents, object_bytes: ObjectBytes) -> None:
        self._branches = branches
        self._contents = contents
        self._bytes = object_bytes

    def before(self, event: Event) -> None:
        """Refuse the change if an action file asks for it.

        Raises:
            UnsupportedError: 501.
        """
        if event.repository.read_only:
            return  # a real server runs no hooks there either
        for path, value in self._action_files(event):
            if self._asks_for(event, path, value):
                raise UnsupportedError(
                    f"{path_text(path)} asks for a hook on {event.change}, and hooks are not implemented. "
                    "Nothing was changed. Remove the file, or use a server that runs hooks"
                )

    def after(self, event: Event) -> None:
        """Do nothing: whatever a hook is asked for has been refused."""

    def _action_files(self, event: Event) -> list[tuple[bytes, Value]]:
        if event.commit_id:
            listed = self._contents.list_committed(event.repository, event.commit_id, FOLDER)
        else:
            branch = self._branches.current(event.repository, event.ref).branch
            listed = self._contents.list_branch(event.repository, branch, FOLDER)
        found = []
        for path, value in listed:
            if not path.startswith(FOLDER):
                break
            if path.endswith(_ENDINGS):
                found.append((path, value))
        return found

    def _asks_for(self, event: Event, path: bytes, value: Value) -> bool:
        """Whether an action file names an event; one that cannot be read counts as if it did."""
        objects, key = self._bytes.locate(event.repository, decode_entry(path, value))
        try:
            action = yaml.safe_load(objects.get(key))
            events = action.get("on", action.get(True))  # YAML reads a bare `on` as true
            return not event.names.isdisjoint(events)
        except (yaml.YAMLError, AttributeError, TypeError, UnicodeDecodeError):
            return True
