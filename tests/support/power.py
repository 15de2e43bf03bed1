"""A loss of power: only data forced to the disk is left of a folder.

While `Disk` watches, each `os.fsync` records the disk's state: of a file its bytes, of a folder its names. Unforced
writes are missing in the image of `lose_power`, as on a file system that orders names before data.
"""

import os
import stat
from pathlib import Path

import pytest

from dredge import process

_REAL_FSYNC = os.fsync


class Disk:
    """Records the forced state of an existing folder."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.files: dict[int, bytes] = {}
        self.folders: dict[int, dict[str, tuple[int, bool]]] = {}
        self._held: list[int] = []
        self._note_all(root)
        monkeypatch.delenv(process.NO_SYNC, raising=False)
        monkeypatch.setattr(os, "fsync", self._fsync)

    def _note_all(self, path: Path) -> None:
        for folder, _, names in os.walk(path):
            fd = os.open(folder, os.O_RDONLY)
            self._note(fd)
            os.close(fd)
            for name in names:
                fd = os.open(os.path.join(folder, name), os.O_RDONLY)
                self._note(fd)
                os.close(fd)

    def _fsync(self, fd: int) -> None:
        _REAL_FSYNC(fd)
        self._note(fd)

    def _note(self, fd: int) -> None:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            names = {}
            for name in os.listdir(fd):
                below = os.stat(name, dir_fd=fd, follow_symlinks=False)
                names[name] = (below.st_ino, stat.S_ISDIR(below.st_mode))
            self.folders[found.st_ino] = names
        else:
            # Kept open, so that its number is not given to another file.
            held = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
            self._held.append(held)
            self.files[found.st_ino] = os.pread(held, found.st_size, 0)

    def lose_power(self, target: Path) -> None:
        """Write the forced state into a new folder."""
        self._restore(os.stat(self.root).st_ino, target)

    def close(self) -> None:
        for fd in self._held:
            os.close(fd)

    def _restore(self, inode: int, target: Path) -> None:
        target.mkdir()
        for name, (below, is_folder) in self.folders.get(inode, {}).items():
            if is_folder:
                self._restore(below, target / name)
            else:
                (target / name).write_bytes(self.files.get(below, b""))
