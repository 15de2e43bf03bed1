"""Tag records."""

from __future__ import annotations

from collections.abc import Iterator

from dredge.kv import KeyNotFoundError, PredicateFailedError, Store
from dredge.lakefs.files.records import Repository
from lakefs_embedded.errors import TagExistsError, TagNotFoundError
from lakefs_embedded.refs.records import Tag, tag_key

_PREFIX = b"tags/"


class Tags:
    """The tags of all repositories."""

    def __init__(self, kv: Store) -> None:
        self._kv = kv

    def get(self, repository: Repository, name: str) -> Tag:
        """Look up a tag."""
        try:
            return Tag.decode(self._kv.get(repository.partition, tag_key(name)))
        except KeyNotFoundError:
            raise TagNotFoundError from None

    def create(self, repository: Repository, tag: Tag) -> None:
        """Write a new tag."""
        try:
            self._kv.set_if(repository.partition, tag_key(tag.name), tag.encode(), None)
        except PredicateFailedError:
            raise TagExistsError from None

    def delete(self, repository: Repository, name: str) -> None:
        """Remove a tag."""
        self.get(repository, name)
        self._kv.delete(repository.partition, tag_key(name))

    def scan(self, repository: Repository, start: str = "") -> Iterator[Tag]:
        """Tags in name order, from a name on."""
        for entry in self._kv.scan(repository.partition, tag_key(start)):
            if not entry.key.startswith(_PREFIX):
                return
            yield Tag.decode(entry.value)
