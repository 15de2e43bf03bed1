"""A repository with virtual chunks in its own files."""

from pathlib import Path
from typing import Any

import numpy as np

from dredge.icechunk.format.metadata import instant
from dredge.icechunk.repository import read_history
from dredge.storage import open_reader
from tests.support.icechunk import local_storage, quiet
from tests.support.icechunk_expiring import expire
from tests.support.icechunk_past import Past


class Views(Past):
    def __init__(
        self, folder: Path, spec: int, count: int = 3, container: str = "", inside: str = "chunks/"
    ) -> None:
        self.places, self.container, self.inside = count, container, inside
        super().__init__(folder, spec)

    @property
    def prefix(self) -> str:
        return f"file://{self.folder}/{self.inside}"

    def _config(self) -> Any:  # type: ignore[override]
        icechunk = quiet()
        config = super()._config()
        store = icechunk.local_filesystem_store(f"{self.folder}/{self.inside}")
        named = {"name": self.container} if self.container else {}
        config.set_virtual_chunk_container(icechunk.VirtualChunkContainer(self.prefix, store, **named))
        return config

    @property
    def library(self) -> Any:
        """The repository opened by Icechunk, with access to its own folder."""
        icechunk = quiet()
        access = {self.prefix: icechunk.credentials.LocalFileSystemAccess}
        return icechunk.Repository.open(
            local_storage(self.folder), config=self._config(), authorize_virtual_chunk_access=access
        )

    def write(self, name: str, branch: str = "main") -> list[str]:
        """Write an array of native chunks; returns their ids."""
        before = self.objects()["chunks"]
        session = self.library.writable_session(branch)
        self.array(session, name)[:] = np.arange(self.places) + 1
        session.commit(f"write {name}")
        return sorted(self.objects()["chunks"] - before)

    def view(self, name: str, chunks: list[str], without: str = "", branch: str = "main") -> str:
        """Commit an array of other arrays' chunks; `without` is an array to delete at once."""
        import zarr

        session = self.library.writable_session(branch)
        self.array(session, name)
        for row, chunk in enumerate(chunks):
            place = f"vcc://{self.container}/{chunk}" if self.container else self.prefix + chunk
            session.store.set_virtual_ref(f"{name}/c/{row}", place, offset=0, length=4)
        if without:
            del zarr.open_group(session.store)[without]
        return str(session.commit(f"view {name}"))

    def drop(self, name: str) -> str:
        """Commit without an array."""
        import zarr

        session = self.library.writable_session("main")
        del zarr.open_group(session.store)[name]
        return str(session.commit(f"drop {name}"))

    def array(self, session: Any, name: str) -> Any:
        """Make an array without chunks."""
        import zarr

        return zarr.create_array(
            session.store, name=name, shape=(self.places,), chunks=(1,), dtype="i4", compressors=None
        )

    def numbers(self, name: str) -> list[int]:
        import zarr

        store = self.library.readonly_session("main").store
        return sorted(int(value) for value in zarr.open_array(store, path=name, mode="r")[:])

    @property
    def written(self) -> list[int]:
        """The numbers of an array of `write`."""
        return list(range(1, self.places + 1))

    def expire_before(self, snapshot: str) -> None:
        expire(self.uri, instant(read_history(open_reader(self.uri)).snapshots[snapshot].flushed_at))

    def mode(self, **changes: Any) -> str:
        """Collect with an earlier run's results, if possible; returns the mode."""
        return str(self.collect(mode="auto", **changes)["mode"])
