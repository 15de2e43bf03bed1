"""A repository with a past: commits by the library, refs restored from a backup, collections over days."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from dredge.icechunk.collection.config import CollectConfig
from dredge.icechunk.collection.steps import collect
from dredge.icechunk.collection.witness.record import KNOWN, Known, LostTip, read_known
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import read_history
from dredge.storage import ObjectWriter, open_reader
from tests.support.icechunk import local_storage, objects, quiet


class Past:
    def __init__(self, folder: Path, spec: int) -> None:
        self.folder, self.uri = folder, f"file://{folder}"
        self.count = 0
        self.create(spec)

    def create(self, spec: int) -> None:
        """Make the repository, maybe again beside Dredge's own files."""
        quiet().Repository.create(
            local_storage(self.folder), config=self._config(), spec_version=spec, check_clean_root=False
        )

    @staticmethod
    def _config() -> Any:
        config = quiet().RepositoryConfig.default()
        config.inline_chunk_threshold_bytes = 0
        return config

    @property
    def storage(self) -> Any:
        return local_storage(self.folder)

    @property
    def library(self) -> Any:
        return quiet().Repository.open(local_storage(self.folder), config=self._config())

    def commit(self, branch: str = "main", repo: Any = None) -> str:
        import zarr

        session = (repo or self.library).writable_session(branch)
        self.count += 1
        array = zarr.create_array(
            session.store, name=f"a{self.count}", shape=(2,), chunks=(1,), dtype="i4", compressors=None
        )
        array[:] = self.count
        made: str = session.commit(f"commit {self.count}")
        return made

    def read(self, snapshot: str, number: int) -> list[int]:
        """Read the array of a commit; raises when a chunk is missing."""
        import zarr

        repo = self.library
        repo.create_branch(f"look-{number}", snapshot)
        store = self.library.readonly_session(branch=f"look-{number}").store
        found = zarr.open_array(store, path=f"a{number}", mode="r")[:].tolist()
        repo.delete_branch(f"look-{number}")
        return [int(value) for value in found]

    def tip(self, branch: str = "main") -> str:
        return read_history(open_reader(self.uri)).branches[branch]

    @contextmanager
    def put_back(self, what: str) -> Iterator[None]:
        """Back a folder or a file up, and restore it in the end."""
        place, backup = self.folder / what, self.folder.with_name(f"{self.folder.name}-{what}")
        _copy(place, backup)
        yield
        _remove(place)
        _copy(backup, place)
        _remove(backup)

    def collect(self, **changes: Any) -> dict[str, Any]:
        """Collect: everything old enough is deleted at once."""
        return collect(self.config(**changes))

    def config(self, **changes: Any) -> CollectConfig:
        settings = {
            "mode": "clean",
            "dry_run": False,
            "unsafe_min_age_seconds": 0,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
        }
        return CollectConfig(uri=self.uri, **{**settings, **changes})

    def objects(self) -> dict[str, set[str]]:
        return objects(self.folder)

    def known(self) -> Known:
        """The index after the last complete mark."""
        return read_known(open_state(self.uri))[0]

    @property
    def state(self) -> ObjectWriter:
        return open_state(self.uri)

    def record(self) -> bytes | None:
        path = self.folder / "_dredge" / KNOWN
        return path.read_bytes() if path.exists() else None

    def pass_days(self, days: float) -> None:
        for kind in ("snapshots", "manifests", "chunks", "transactions", "refs"):
            for path in (self.folder / kind).rglob("*"):
                at = path.stat().st_mtime - days * 86_400
                os.utime(path, (at, at))
        if self.record() is None:
            return
        known = self.known()
        ago = timedelta(days=days)

        def earlier(at: datetime | None) -> datetime | None:
            return None if at is None else at - ago

        lost = {node: LostTip(tip.ref, tip.since - ago) for node, tip in known.lost.items()}
        unnamed = {node: since - ago for node, since in known.unnamed.items()}
        path = self.folder / "_dredge" / KNOWN
        time = path.stat().st_mtime - days * 86_400
        times = {"at": earlier(known.at), "written_at": earlier(known.written_at)}
        path.write_bytes(replace(known, lost=lost, unnamed=unnamed, **times).dumps())
        os.utime(path, (time, time))


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copy2(source, target)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
