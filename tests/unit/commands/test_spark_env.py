"""What `dredge spark-env` packs, and what it refuses; tests/system/test_spark_cluster.py uses such an archive."""

import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dredge.cli import dredge
from dredge.commands.spark_env import _distributions, _libraries
from dredge.errors import ConfigError


def test_what_executors_need_is_packed_and_neither_airflow_nor_spark() -> None:
    names = {found.name.lower().replace("_", "-") for found in _distributions()}
    assert {"pyarrow", "numpy", "numba", "llvmlite", "obstore", "icechunk", "psycopg-binary"} <= names
    assert names.isdisjoint({"apache-airflow", "pyspark", "pytest", "dredge", "fastapi"})


def test_the_c_library_is_the_machines_own() -> None:
    names = {path.name for path in _libraries([Path(sys.executable).resolve()])}
    assert not [name for name in names if name.startswith(("libc.so", "libm.so", "ld-linux"))]


@pytest.mark.parametrize("name", ["env.zip", "env", "env.tar"])
def test_another_kind_of_file_is_refused(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(dredge, ["spark-env", str(tmp_path / name)])
    assert isinstance(done.exception, ConfigError)
    assert list(tmp_path.iterdir()) == []
