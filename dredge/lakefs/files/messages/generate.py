"""Generate the message classes from the .proto files beside this script.

    uv run --isolated --no-project --with grpcio-tools==1.75.1 --with setuptools \\
        python dredge/lakefs/files/messages/generate.py

That compiler is of protobuf 6.31, the oldest supported version: generated code runs with its own version and all later
ones of this major version and the next. The generated files are committed, so that using Dredge needs no compiler; a
test generates them again with the compiler of the development environment, and compares all but the version.
"""

import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[3]


def generate(out: Path = ROOT) -> list[Path]:
    """Write a `_pb2.py` and a `_pb2.pyi` for every .proto file."""
    import grpc_tools  # type: ignore[import-untyped]
    from grpc_tools import protoc

    sources = sorted(FOLDER.glob("*.proto"))
    well_known = Path(next(iter(grpc_tools.__path__))) / "_proto"
    arguments = ["protoc", f"-I{ROOT}", f"-I{well_known}", f"--python_out={out}", f"--pyi_out={out}"]
    if protoc.main([*arguments, *(str(source) for source in sources)]) != 0:
        raise RuntimeError("protoc failed")
    written = [out / source.relative_to(ROOT).with_name(f"{source.stem}_pb2") for source in sources]
    for stem in written:
        stub = stem.with_suffix(".pyi")
        # The compiler writes bare Mapping types, which strict checking refuses.
        stub.write_text(f'# mypy: disable-error-code="type-arg"\n{stub.read_text()}')
    return [stem.with_suffix(suffix) for stem in written for suffix in (".py", ".pyi")]


if __name__ == "__main__":
    for path in generate():
        sys.stdout.write(f"{path}\n")
