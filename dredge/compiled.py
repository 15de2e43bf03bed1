"""Loads the compiled kernels.

numba compiles them once, which takes seconds. Each process then loads the machine code with LLVM's loader, without
numba: that takes 40 MiB and a tenth of a second instead of 110 and 0.6. The code is cached in a folder:
`$NUMBA_CACHE_DIR`, else `$XDG_CACHE_HOME/dredge` or `~/.cache/dredge`, else a private folder among the temporary files.
The folder's name has a hash of the kernels' sources, and the file's name one of numba and the processor, so no old or
foreign code is run. Parallel processes wait for the first one to compile. Without a writable folder (or with the source
inside an archive), every process compiles for itself.
"""

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import importlib
import importlib.util
import json
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dredge.errors import ConfigError
from dredge.kernels.interface import BYTES, KERNELS, NUMBER

_log = logging.getLogger(__name__)
_PACKAGE = "dredge.kernels"
_LOCK_SECONDS_MAX = 60.0
_DIGEST_SIZE = 32
_loading = threading.Lock()

type Codes = Mapping[str, tuple[str, str]]
"""The symbol of each kernel, and its machine code as hexadecimal digits."""


@functools.cache
def kernels() -> SimpleNamespace:
    """Load the compiled kernels by name: a tenth of a second with a full cache, else several seconds. Raises
    ConfigError if the machine is big-endian; the kernels read little-endian files."""
    if sys.byteorder != "little":
        raise ConfigError(
            "this machine is big-endian, and Dredge runs on little-endian ones (x86-64, ARM) only"
        )
    with _loading:
        return SimpleNamespace(**_link(_read_or_compile()))


def are_loaded() -> bool:
    """Whether the kernels are loaded in this process."""
    return kernels.cache_info().currsize > 0


def _kernel(code: Any, name: str) -> Callable[..., int]:
    """Return a function that checks the types of arguments, and calls a kernel without Python's lock."""

    def kernel(*arguments: Any) -> int:
        flat = [item for found in arguments for item in (found if isinstance(found, tuple) else (found,))]
        words: list[int] = []
        for item, kind in zip(flat, KERNELS[name], strict=True):
            words += (item,) if kind == NUMBER else _describe(item, kind)
        result, error = ctypes.c_int64(), ctypes.c_void_p()
        if code(ctypes.addressof(result), ctypes.addressof(error), *words):
            raise RuntimeError(f"the kernel {name} failed")
        return result.value

    return kernel


def _describe(array: Any, kind: str) -> tuple[int, ...]:
    """Return an array as numba passes it: two owners, items, item size, address, shape, strides."""
    found = "uint8" if kind == BYTES else kind
    if array.dtype != found or array.ndim != 1 or not array.flags.c_contiguous:
        raise TypeError(f"a kernel got {array.dtype} of {array.ndim} dimensions, not an array of {found}")
    if kind != BYTES and not array.flags.writeable:
        raise TypeError(f"a kernel got a read-only array of {found}")
    items, size = len(array), array.itemsize
    return 0, 0, items, size, array.__array_interface__["data"][0], items, size


def _link(codes: Codes) -> dict[str, Callable[..., int]]:
    """Make functions of machine code."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for _, code in codes.values():
        engine.add_object_file(llvm.ObjectFileRef.from_data(bytes.fromhex(code)))
    engine.finalize_object()
    made = {}
    for name, (symbol, _) in codes.items():
        words = sum(1 if kind == NUMBER else 7 for kind in KERNELS[name])
        # numba's convention: status, from the places of the result and of an error, and the arguments.
        types = [ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * words]
        called = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(engine.get_function_address(symbol))
        called.engine = engine  # type: ignore[attr-defined]  # keeps the code
        made[name] = _kernel(called, name)
    return made


def _read_or_compile() -> Codes:
    for folder in _cache_folders(os.environ.get("NUMBA_CACHE_DIR", "")):
        path = folder / f"{_machine()}.json"
        try:
            with _one_at_a_time(folder):
                if (codes := _read(path)) is None:
                    codes = _compile()
                    content, made = json.dumps(codes).encode(), path.with_suffix(f".{os.getpid()}")
                    made.write_bytes(hashlib.sha256(content).digest() + content)
                    made.replace(path)
                return codes
        except OSError as error:
            _log.warning("compiled kernels cannot be cached in %s: %s", folder, error)
    return _compile()


def _read(path: Path) -> Codes | None:
    """Return cached code; None if there is none, or if it is damaged: LLVM would end the process."""
    try:
        stored = path.read_bytes()
    except FileNotFoundError:
        return None
    content = stored[_DIGEST_SIZE:]
    return json.loads(content) if hashlib.sha256(content).digest() == stored[:_DIGEST_SIZE] else None


def _compile() -> Codes:
    entry, codes = importlib.import_module(f"{_PACKAGE}.entry"), {}
    for name in KERNELS:
        (made,) = getattr(entry, name).overloads.values()
        code = made.library.serialize_using_object_code()[2][0]
        codes[name] = (made.fndesc.llvm_func_name, code.hex())
    return codes


def _machine() -> str:
    """Return a hash of what machine code depends on, beside its source."""
    import llvmlite.binding as llvm

    cpu = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    seen = (version("numba"), version("llvmlite"), llvm.get_process_triple(), *cpu)
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:16]


def _source_hash() -> str | None:
    """Return a hash of all files of the package, since kernels of one are inlined into those of another; None inside an
    archive, where numba cannot cache.
    """
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
    source = _source_hash()
    if source is None:
        return
    name = f"kernels-{source}"
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    roots = [Path(configured)] if configured else []
    roots += [Path(home) / "dredge", Path(tempfile.gettempdir()) / f"dredge-{os.getuid()}"]
    for root in roots:
        folder = root / name
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Cached files are run as code, so no other user may write here.
            status = folder.stat()
            ours = status.st_uid == os.getuid() and not status.st_mode & 0o022
            if ours and os.access(folder, os.W_OK | os.X_OK):
                yield folder


@contextlib.contextmanager
def _one_at_a_time(folder: Path, seconds_max: float = _LOCK_SECONDS_MAX) -> Iterator[None]:
    """Let one process compile while the others wait, up to a limit; after it, two may compile the same code."""
    with (folder / "lock").open("a") as lock:
        deadline = time.monotonic() + seconds_max
        while time.monotonic() < deadline:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                time.sleep(0.05)
        yield
