"""Loads the compiled kernels.

Compiling takes seconds, so compiled code is cached in a folder: `$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/dredge` or
`~/.cache/dredge`, else a private folder among the temporary files. Its name has a hash of the kernels' sources, so no
old code is run. Parallel processes wait for the first one to compile. Without a writable folder (or with the source
inside an archive), every process compiles for itself.
"""

import contextlib
import functools
import hashlib
import importlib
import importlib.util
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from dredge.errors import ConfigError

_log = logging.getLogger(__name__)
_PACKAGE = "dredge.kernels"
_MODULE = f"{_PACKAGE}.entry"
_SHARED = f"{_PACKAGE}.interface"  # its types are in the hands of callers
_LOCK_SECONDS_MAX = 60.0
_cache_folder: str | None = None
_importing = threading.Lock()


def caching() -> bool:
    """Whether the current import of the kernels caches compiled code."""
    return _cache_folder is not None


@functools.cache
def kernels() -> ModuleType:
    """Import the compiled kernels, `dredge.kernels.entry`: a quarter of a second with a full cache, else several
    seconds. Raises ConfigError if the machine is big-endian; the kernels read little-endian files."""
    if sys.byteorder != "little":
        raise ConfigError(
            "this machine is big-endian, and Dredge runs on little-endian ones (x86-64, ARM) only"
        )
    with _importing:  # numba's setting is changed for the time of the import
        return _import_kernels()


@functools.cache
def load_ahead() -> None:
    """Begin to import the kernels in a thread, once, for a process that will need them."""
    if not are_loaded():
        threading.Thread(target=kernels, name="dredge-kernels").start()


def are_loaded() -> bool:
    """Whether the kernels are loaded in this process."""
    return kernels.cache_info().currsize > 0


def _import_kernels() -> ModuleType:
    global _cache_folder
    from numba.core import config as numba_config

    config: Any = numba_config
    before = config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES
    for folder in _cache_folders(config.CACHE_DIR):
        config.CACHE_DIR = _cache_folder = str(folder)
        config.CACHE_LOCATOR_CLASSES = f"{_PACKAGE}.memory._OneFolder"
        try:
            with _one_at_a_time(folder):
                return importlib.import_module(_MODULE)
        except Exception as error:
            # A damaged cache can fail in any way; compiling again helps in all cases.
            _log.warning(
                "compiled kernels cannot be cached in %s (%s: %s)", folder, type(error).__name__, error
            )
            _forget_kernels()
        finally:
            (config.CACHE_DIR, config.CACHE_LOCATOR_CLASSES), _cache_folder = before, None
    return importlib.import_module(_MODULE)


def _forget_kernels() -> None:
    """Unload the kernels, so that the next import decides about caching again."""
    for name in [name for name in sys.modules if name.startswith(f"{_PACKAGE}.") and name != _SHARED]:
        del sys.modules[name]


def _source_hash() -> str | None:
    """Return a hash of all files of the package, since kernels of one are inlined into those of another; None inside an
    archive, where numba cannot cache."""
    spec = importlib.util.find_spec(_PACKAGE)
    paths = sorted(Path(spec.origin).parent.glob("*.py")) if spec is not None and spec.origin else []
    digest = hashlib.sha256()
    try:
        for path in paths:
            source = path.read_bytes()
            digest.update(f"{path.name} {len(source)}\n".encode() + source)
    except OSError:
        return None
    return digest.hexdigest()[:16] if paths else None


def _cache_folders(configured: str) -> Iterator[Path]:
    """Yield possible folders: private, writable, and for this version of the sources."""
    version = _source_hash()
    if version is None:
        return
    name = f"kernels-{version}"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    roots = [Path(configured)] if configured else []
    roots += [Path(home) / "dredge", Path(tempfile.gettempdir()) / f"dredge-{user}"]
    for root in roots:
        folder = root / name
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Cached files are run as code, so no other user may write here.
            status = folder.stat()
            ours = not hasattr(os, "getuid") or (status.st_uid == os.getuid() and not status.st_mode & 0o022)
            if ours and os.access(folder, os.W_OK | os.X_OK):
                yield folder


@contextlib.contextmanager
def _one_at_a_time(folder: Path, seconds_max: float = _LOCK_SECONDS_MAX) -> Iterator[None]:
    """Let one process compile while the others wait, up to a limit; after it, two may compile the same code."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with (folder / "lock").open("a") as lock:
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)
        yield
