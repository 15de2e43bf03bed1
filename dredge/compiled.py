"""Loads the compiled kernels.

numba compiles them once, which takes seconds. Each process then loads the machine code with LLVM's loader, without
numba: 40 MiB and a tenth of a second instead of 110 and 0.6. The code is in `$NUMBA_CACHE_DIR`, else in
`$XDG_CACHE_HOME/dredge` or `~/.cache/dredge`, else in a private folder among the temporary files. The folder is named
after a hash of its sources, numba and the processor, so no old or foreign code is run. Parallel processes wait for the
first one to compile. Without a writable folder (or with the source in an archive), every process compiles for itself.
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
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from dredge.errors import ConfigError

_log = logging.getLogger(__name__)
_PACKAGE = "dredge.kernels"
_LOCK_SECONDS_MAX = 60.0
_FAILED = -1 << 63  # instead of a result
_KERNELS = ("read_index", "measure", "decode", "hash_texts")

type Codes = Mapping[str, tuple[Sequence[Sequence[Any]], Sequence[str]]]
"""Of each kernel: arguments (of an array type, dimensions, whether it is written; of a number nothing), and machine
code in hex."""


@functools.cache
def kernels() -> SimpleNamespace:
    """Load the compiled kernels by name: a tenth of a second with a full cache, else several seconds. Raises
    ConfigError if the machine is big-endian; the kernels read little-endian files."""
    if sys.byteorder != "little":
        raise ConfigError("this machine is big-endian; Dredge runs on little-endian ones (x86-64, ARM) only")
    return SimpleNamespace(**_link(_read_or_compile()))


def are_loaded() -> bool:
    """Whether the kernels are loaded in this process."""
    return kernels.cache_info().currsize > 0


def _kernel(code: Any, kinds: Sequence[Sequence[Any]]) -> Callable[..., int]:
    """Return a function that checks the types of arguments, and calls a kernel without Python's lock."""
    arrays = [kind and (np.dtype(kind[0]), *kind[1:]) for kind in kinds]
    pack = struct.Struct(f"{_count_words(kinds)}q").pack

    def kernel(*arguments: Any) -> int:
        words: list[int] = []
        for item, kind in zip(arguments, arrays, strict=True):
            words += _words(item, *kind) if kind else (item,)
        result: int = code(pack(*words))
        if result == _FAILED:
            raise RuntimeError("a kernel failed")
        return result

    return kernel


def _words(item: Any, dtype: Any, dimensions: int, written: bool) -> tuple[int, ...]:
    """Return an array as numba passes it: two owners, items, item size, address, shape, strides."""
    if item.dtype != dtype or item.ndim != dimensions or not item.flags.c_contiguous:
        raise TypeError(f"a kernel got {item.dtype} of {item.ndim} dimensions, not an array of {dtype}")
    if written and not item.flags.writeable:
        raise TypeError(f"a kernel got a read-only array of {dtype}")
    # numpy takes five times as long for an address.
    return 0, 0, item.size, item.itemsize, pa.py_buffer(item).address, *item.shape, *item.strides


def _count_words(kinds: Sequence[Sequence[Any]]) -> int:
    return sum(5 + 2 * kind[1] if kind else 1 for kind in kinds)


def _link(codes: Codes) -> dict[str, Callable[..., int]]:
    """Make functions of machine code."""
    import llvmlite.binding as llvm  # type: ignore[import-untyped]

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    for _, pieces in codes.values():
        for code in pieces:
            engine.add_object_file(llvm.ObjectFileRef.from_data(bytes.fromhex(code)))
    engine.finalize_object()
    made = {}
    for name, (kinds, _) in codes.items():
        called = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p)(engine.get_function_address(name))
        called.engine = engine  # type: ignore[attr-defined]  # keeps the code
        made[name] = _kernel(called, kinds)
    return made


def _read_or_compile() -> Codes:
    for folder in _cache_folders(os.environ.get("NUMBA_CACHE_DIR", "")):
        path = folder / "code.json"
        try:
            with _one_at_a_time(folder):
                with contextlib.suppress(FileNotFoundError, ValueError):
                    digest, content = path.read_bytes().split(b"\n")
                    if digest == hashlib.sha256(content).hexdigest().encode():  # LLVM ends with damaged code
                        codes: Codes = json.loads(content)
                        return codes
                codes, made = _compile(), path.with_suffix(f".{os.getpid()}")
                content = json.dumps(codes).encode()
                made.write_bytes(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
                made.replace(path)
                return codes
        except OSError as error:
            _log.warning("compiled kernels cannot be cached in %s: %s", folder, error)
    return _compile()


def _compile() -> Codes:
    import llvmlite.binding as llvm

    entry, codes = importlib.import_module(f"{_PACKAGE}.entry"), {}
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    for name in _KERNELS:
        (made,) = getattr(entry, name).overloads.values()
        code = made.library.serialize_using_object_code()[2][0]
        kinds = [
            (str(kind.dtype), kind.ndim, kind.mutable) if hasattr(kind, "dtype") else ()
            for kind in made.signature.args
        ]
        caller = _caller(name, made.fndesc.llvm_func_name, _count_words(kinds))
        codes[name] = kinds, (code.hex(), machine.emit_object(llvm.parse_assembly(caller)).hex())
    return codes


def _caller(name: str, symbol: str, count: int) -> str:
    """Return LLVM's text of a function that calls a kernel with an array of words, since ctypes takes long for each
    argument. numba's convention: status, from the places of the result and of an error, and the arguments."""
    words = "\n".join(
        f"%p{at} = getelementptr i64, ptr %words, i64 {at}\n%w{at} = load i64, ptr %p{at}, align 1"
        for at in range(count)
    )
    arguments = "".join(f", i64 %w{at}" for at in range(count))
    return f"""
        declare i32 @"{symbol}"(ptr, ptr{", i64" * count})
        define i64 @"{name}"(ptr %words) {{
            %result = alloca i64
            %error = alloca ptr
            {words}
            %status = call i32 @"{symbol}"(ptr %result, ptr %error{arguments})
            %found = load i64, ptr %result
            %fine = icmp eq i32 %status, 0
            %answer = select i1 %fine, i64 %found, i64 {_FAILED}
            ret i64 %answer
        }}"""


def _source_hash() -> str | None:
    """Return a hash of what machine code depends on: all files of the package, since kernels of one are inlined into
    those of another, this file, numba, and the processor; None inside an archive, where numba cannot cache."""
    import llvmlite.binding as llvm

    made_by = version("numba"), version("llvmlite"), llvm.get_process_triple()
    cpu = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    spec = importlib.util.find_spec(_PACKAGE)
    paths = sorted(Path(spec.origin).parent.glob("*.py")) if spec is not None and spec.origin else []
    digest = hashlib.sha256("\n".join((*made_by, *cpu)).encode())
    try:
        for path in (*paths, Path(__file__)):
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
            with contextlib.suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        yield
