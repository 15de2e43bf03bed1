"""Symlink files: for each folder of a ref a list of its objects' addresses, for engines that read those (Hive, Presto).

    <namespace>/symlinks/<repository>/<ref>/<folder>/symlink.txt

They are written outside of `data/`, are no part of any commit, and keep nothing alive: a collection deletes an object
that only such a file names.

Source: lakeFS pkg/api/controller.go (CreateSymlinkFile; behaviour only).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from dredge.graveler.catalog.model import Namespaces, Refs
from dredge.graveler.catalog.reading import ReadingService
from dredge.graveler.catalog.results import ObjectStats
from dredge.graveler.refs.records import Repository

FOLDER = "symlinks"


class SymlinkService:
    """Writes symlink files.

    Args:
        refs: records.
        namespaces: where the files are written.
        reading: lists objects.
    """

    def __init__(self, refs: Refs, namespaces: Namespaces, reading: ReadingService) -> None:
        self._refs = refs
        self._namespaces = namespaces
        self._reading = reading

    def create_symlinks(self, repository: str, ref: str, location: str = "") -> str:
        """Write a file for each folder that has objects.

        Args:
            repository: its name.
            ref: ref expression.
            location: only paths that begin with it.

        Returns:
            URI of the folder of all symlink files.
        """
        found = self._refs.repositories.writable(repository)
        objects = self._namespaces.of(found).objects
        listed = self._objects(found, ref, location)
        for folder, members in groupby(listed, key=lambda each: each.path.rpartition("/")[0]):
            text = "\n".join(each.physical_address for each in members)
            objects.put(_key(found, ref, folder), text.encode())
        return f"{found.storage_namespace}/{FOLDER}"

    def _objects(self, repository: Repository, ref: str, prefix: str) -> Iterator[ObjectStats]:
        after, more = "", True
        while more:
            page = self._reading.list_entries(repository.name, ref, prefix=prefix, after=after, amount=1000)
            yield from page.results
            after, more = page.next_offset, page.has_more


def _key(repository: Repository, ref: str, folder: str) -> str:
    """Key of a folder's file. That of the root has two slashes on a real server, which a file's path loses."""
    key = f"{FOLDER}/{repository.name}/{ref}/{folder}/symlink.txt"
    return key.replace("//", "/") if repository.storage_namespace.startswith("local://") else key
