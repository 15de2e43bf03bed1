"""Action files of a ref: every file directly below `_lakefs_actions/`, whatever its name ends with.

They are read anew for each event. A real server may use what it read up to 7.5 s ago.

Source: lakeFS pkg/catalog/actions_source.go, pkg/actions/action.go (LoadActions).
"""

from __future__ import annotations

from collections.abc import Iterator

from dredge.errors import NotFoundError
from dredge.graveler.actions.errors import ActionFileError, HookError, aborted
from dredge.graveler.actions.model import Action, parse_action
from dredge.graveler.catalog.contents import Contents
from dredge.graveler.catalog.entries import decode_entry, path_text
from dredge.graveler.catalog.events import Event
from dredge.graveler.catalog.model import Refs
from dredge.graveler.catalog.object_bytes import ObjectBytes
from dredge.graveler.committed import Value
from dredge.graveler.refs.records import Repository

FOLDER = b"_lakefs_actions/"
_BYTES_MAX = 1 << 20


class ActionFiles:
    """Reads the action files of refs.

    Args:
        refs: resolves them.
        contents: lists what they hold.
        object_bytes: reads the files.
    """

    def __init__(self, refs: Refs, contents: Contents, object_bytes: ObjectBytes) -> None:
        self._refs = refs
        self._contents = contents
        self._bytes = object_bytes

    def matching(self, event: Event) -> list[Action]:
        """The actions for an event, in the order of their files.

        Raises:
            ActionFileError: 500, a file of the ref cannot be used, even one for other events.
            GravelerError: the ref cannot be read.
        """
        actions: list[Action] = []
        problems: list[HookError] = []
        for path, value in self._listed(event.repository, event.source):
            try:
                actions.append(parse_action(self._content(event.repository, path, value)))
            except ActionFileError as error:
                problems.append(HookError(f"parsing file {path_text(path)}: {error}", failed=False))
        if problems:
            raise aborted(problems)
        seen: set[str] = set()
        for each in actions:
            if each.name in seen:
                raise ActionFileError(f"action name '{each.name}' already loaded: invalid action")
            seen.add(each.name)
        return [each for each in actions if each.is_for(event)]

    def _listed(self, repository: Repository, source: str) -> Iterator[tuple[bytes, Value]]:
        resolved = self._refs.resolver.resolve(repository, source)
        if resolved.branch is None:
            listed = self._contents.list_committed(repository, resolved.commit_id, FOLDER)
        else:
            branch = self._refs.branches.current(repository, resolved.branch).branch
            listed = self._contents.list_branch(
                repository, branch, FOLDER, staging_only=resolved.staging_only
            )
        for path, value in listed:
            if not path.startswith(FOLDER):
                return
            yield path, value

    def _content(self, repository: Repository, path: bytes, value: Value) -> bytes:
        if b"/" in path.removeprefix(FOLDER):
            raise ActionFileError("action files lie directly in the folder, not in one below it")
        entry = decode_entry(path, value)
        if entry.size > _BYTES_MAX:
            raise ActionFileError(f"larger than {_BYTES_MAX} bytes")
        objects, key = self._bytes.locate(repository, entry)
        try:
            return objects.get(key)
        except NotFoundError:
            raise ActionFileError("its object is gone from the store") from None
