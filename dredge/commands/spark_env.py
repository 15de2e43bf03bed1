"""`dredge spark-env`: a Python with Dredge in one archive, for executors without either.

    bin/python3     starts the interpreter with the libraries and packages beside it, in any folder
    bin/python3.12  the interpreter
    lib/            its standard library, and its shared libraries
    packages/       Dredge and its dependencies, as installed here

A virtual environment links to the interpreter of its machine, so it cannot be used elsewhere, packed or not.
"""

import io
import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

import click

from dredge.errors import ConfigError

_OURS = ("dredge", "airflow_dredge")
#: Extras that executors may need; extras that are not installed here are left out.
_EXTRAS = ("azure", "gcs", "icechunk", "kv")
_LEFT_OUT = {
    "__pycache__",
    "ensurepip",
    "idlelib",
    "site-packages",
    "dist-packages",
    "test",
    "tkinter",
    "turtledemo",
}
#: The C library is the machine's own.
_OF_GLIBC = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|util|pthread|resolv|nsl|crypt))\.so.*")
_START = """\
#!/bin/sh
here=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
export LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
export PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/packages" PYTHONNOUSERSITE=1
exec "$here/bin/{python}" "$@"
"""


@click.command("spark-env", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("out", metavar="FILE.tar.gz", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The result as a JSON object.")
def command(out: Path, as_json: bool) -> None:
    """Pack this Python with Dredge for Spark's executors into FILE.tar.gz.

    The archive has the interpreter itself, so executors need none. They need Linux of this processor, and a C library
    at least as new as this machine's. Put the file where executors can read it, and name it in the Param
    `spark_python` (a path or a URI).

    \b
    Examples:
      dredge spark-env /shared/dredge-env.tar.gz

    \b
    Exit codes: 0 done · 2 this Python cannot be packed
    """
    if not out.name.endswith((".tar.gz", ".tgz")):
        raise ConfigError(f"{out}: the name of the file must end in .tar.gz")
    if sys.platform != "linux":
        raise ConfigError(
            f"this Python is of {sys.platform}, and executors run Linux. Pack on a Linux machine."
        )
    if (Path(sys.base_prefix) / "conda-meta").exists():
        raise ConfigError(
            f"this Python is conda's. Pack it with conda-pack: conda pack -p {sys.prefix} -o {out}"
        )
    count = pack(out)
    version, size = sys.version.split()[0], out.stat().st_size
    if as_json:
        click.echo(json.dumps({"file": str(out), "python": version, "files": count, "bytes": size}))
    else:
        click.echo(f"{out}: Python {version} with Dredge, {count:,} files, {size / 1e6:,.0f} MB")


def pack(out: Path) -> int:
    """Write the archive, whole or not at all; returns the number of its files."""
    names = set[str]()
    partial = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with tarfile.open(partial, "w:gz", compresslevel=4) as archive:
            for source, name in _files():
                if name not in names:
                    names.add(name)
                    archive.add(source.resolve(), name, recursive=False)
            start = tarfile.TarInfo("bin/python3")
            text = _START.format(python=_interpreter().name).encode()
            start.size, start.mode = len(text), 0o755
            archive.addfile(start, io.BytesIO(text))
        partial.replace(out)
    except OSError as error:
        raise ConfigError(f"{out} cannot be written: {error}") from None
    finally:
        partial.unlink(missing_ok=True)
    return len(names) + 1


def _files() -> Iterator[tuple[Path, str]]:
    """Every file, with its name in the archive."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    yield _interpreter(), f"bin/{_interpreter().name}"
    binaries = [_interpreter()]
    for kind, folder in (("stdlib", "lib"), ("platstdlib", sys.platlibdir)):
        for path, inside in _tree(Path(sysconfig.get_path(kind))):
            yield path, f"{folder}/{version}/{inside}"
            if path.suffix == ".so":
                binaries.append(path)
    for path in _libraries(binaries):
        yield path, f"lib/{path.name}"
    for name in _OURS:
        spec = find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        for path, inside in _tree(Path(spec.origin).parent):
            yield path, f"packages/{name}/{inside}"
    for found in _distributions():
        for file in found.files or ():
            if (
                ".." not in file.parts
                and "__pycache__" not in file.parts
                and Path(str(found.locate_file(file))).is_file()
            ):
                yield Path(str(found.locate_file(file))), f"packages/{file}"


def _interpreter() -> Path:
    return Path(sys.executable).resolve()


def _tree(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below a folder; links to folders are followed, as a checkout has them."""
    for here, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith("config-")]
        for name in files:
            path = Path(here, name)
            if path.suffix != ".pyc" and not name.startswith("_tkinter"):
                yield path, path.relative_to(folder).as_posix()


def _libraries(binaries: Iterable[Path]) -> set[Path]:
    """Return the shared libraries of binaries, without those of the C library."""
    said = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    found = {Path(path) for path in re.findall(r"=> (/\S+) \(", said)}
    return {path for path in found if _OF_GLIBC.fullmatch(path.name) is None}


def _distributions() -> Iterator[Distribution]:
    """Yield the installed distributions of Dredge's dependencies, recursively."""
    seen, wanted = set[str](), [("dredge", frozenset(_EXTRAS))]
    while wanted:
        name, extras = wanted.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:  # for another platform, or an extra that is not here
            continue
        key = f"{found.name}{sorted(extras)}"
        if key in seen:
            continue
        seen.add(key)
        if name != "dredge":
            yield found
        wanted += [needed for line in found.requires or () if (needed := _needed(line, extras)) is not None]


def _needed(requirement: str, extras: frozenset[str]) -> tuple[str, frozenset[str]] | None:
    """Return name and extras of a requirement; None if it belongs to an unwanted extra."""
    what, _, marker = requirement.partition(";")
    of_extra = re.findall(r"""extra\s*==\s*['"]([^'"]+)""", marker)
    if of_extra and extras.isdisjoint(of_extra):
        return None
    match = re.match(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?", what)
    assert match is not None
    return match[1], frozenset(re.findall(r"[\w.-]+", match[2] or ""))
