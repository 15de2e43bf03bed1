"""Records of the partition `auth`: single keys, listings, and links between two entities.

A link (a membership, an attached policy) is a record with the key of one of the two entities as its value. Rules to
keep links consistent without transactions:

- Removing an entity deletes its links first and the entity last. A crash in between leaves an entity with fewer
  links, never a link without its entity, to be inherited by the next entity of the same name.
- Creating a link checks both entities again afterwards, and removing an entity checks again for new links. So
  concurrent processes leave no such link either.
"""

from collections.abc import Callable, Iterable, Iterator

from lakefs_embedded.auth import model
from lakefs_embedded.auth.model import PARTITION
from lakefs_embedded.catalog.listing import take_page
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.errors import AlreadyExistsError
from lakefs_embedded.kv import KeyNotFoundError, PredicateFailedError, Store


def page_of[T](named: Iterator[tuple[str, T]], amount: int) -> Page[T]:
    """Take the first `amount` items of a listing, given as (name, item)."""
    page = take_page(named, amount, lambda each: each[0])
    return Page([item for _, item in page.results], page.has_more, page.next_offset)


class AuthRecords:
    """Reads and writes records."""

    def __init__(self, kv: Store, on_change: Callable[[], None]) -> None:
        self._kv = kv
        self._on_change = on_change

    def read(self, key: bytes, missing: type[Exception]) -> bytes:
        """Read a record; raises `missing` if it does not exist."""
        try:
            return self._kv.get(PARTITION, key)
        except KeyNotFoundError:
            raise missing from None

    def exists(self, key: bytes) -> bool:
        """Whether a record exists."""
        try:
            self._kv.get(PARTITION, key)
        except KeyNotFoundError:
            return False
        return True

    def keys(self, prefix: bytes) -> Iterator[bytes]:
        """Yield the keys that start with a prefix, in byte order."""
        for entry in self._kv.scan(PARTITION, prefix):
            if not entry.key.startswith(prefix):
                return
            yield entry.key

    def create(self, key: bytes, value: bytes) -> None:
        """Write a new record; raises AlreadyExistsError."""
        try:
            self._kv.set_if(PARTITION, key, value, None)
        except PredicateFailedError:
            raise AlreadyExistsError from None
        self._on_change()

    def ensure(self, key: bytes, value: bytes) -> None:
        """Write a record unless one exists."""
        try:
            self._kv.set_if(PARTITION, key, value, None)
        except PredicateFailedError:
            return
        self._on_change()

    def replace(self, key: bytes, value: bytes, missing: type[Exception]) -> None:
        """Write a new value of an existing record; raises `missing` if there is none."""
        while True:
            old = self.read(key, missing)
            try:
                self._kv.set_if(PARTITION, key, value, old)
            except PredicateFailedError:
                continue  # updated or removed meanwhile: read again
            self._on_change()
            return

    def delete(self, key: bytes) -> None:
        """Delete a record, if it exists."""
        self._kv.delete(PARTITION, key)
        self._on_change()

    def remove_entity(self, key: bytes, links: Callable[[], Iterator[bytes]]) -> None:
        """Delete an entity after its links (keys yielded by `links`), then links created meanwhile."""
        for link in links():
            self._kv.delete(PARTITION, link)
        self._kv.delete(PARTITION, key)
        for link in links():
            self._kv.delete(PARTITION, link)
        self._on_change()

    def link(self, key: bytes, primary: bytes, check: Callable[[], object]) -> None:
        """Create a link; raises AlreadyExistsError. `check` raises unless both entities exist, before and after."""
        check()
        self.create(key, model.encode_index(primary))
        self.undo_unless(key, check)

    def undo_unless(self, key: bytes, check: Callable[[], object]) -> None:
        """Delete a record again if `check` raises: its entity was removed meanwhile."""
        try:
            check()
        except BaseException:
            self.delete(key)
            raise

    def named[T](
        self, root: bytes, prefix: str, after: str, decode: Callable[[bytes], T]
    ) -> Iterator[tuple[str, T]]:
        """Yield (name, item) in name order; `root` is the key prefix of all names."""
        wanted = root + prefix.encode()
        start = max(wanted, root + after.encode() + b"\0") if after else wanted
        for entry in self._kv.scan(PARTITION, start):
            if not entry.key.startswith(wanted):
                return
            yield entry.key[len(root) :].decode(), decode(entry.value)

    def linked_names(self, root: bytes, prefix: str = "", after: str = "") -> Iterator[str]:
        """Yield the names at the end of the links below `root`, in order; arguments as for `named`."""
        return (name for name, _ in self.named(root, prefix, after, bytes))

    def linked[T](
        self, names: Iterable[str], key: Callable[[str], bytes], decode: Callable[[bytes], T]
    ) -> Iterator[tuple[str, T]]:
        """Yield (name, item) for linked entities; a link to a missing entity is skipped."""
        for name in names:
            try:
                value = self._kv.get(PARTITION, key(name))
            except KeyNotFoundError:
                continue
            yield name, decode(value)
