"""Which Python the driver and the executors of an application run, and whose settings count."""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.definitions.retry_policy import RetryAction

from airflow_dredge.operators.failures import RETRY_BY_FAMILY
from airflow_dredge.operators.spark import job_error
from airflow_dredge.spark_jobs.archive import spark_home
from airflow_dredge.spark_jobs.session import submit_conf
from dredge import __version__
from dredge.errors import ConfigError

pytestmark = pytest.mark.system

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import json, sys
from airflow_dredge.spark_jobs.session import session_conf
conf = session_conf("ours", "local[3]")
print("SEEN", json.dumps({**dict(conf.getAll()), "python": sys.executable}))
"""
WORK = """
from airflow_dredge.spark_jobs.job import Job, job_main
from airflow_dredge.spark_jobs.application import load_modules
def run(run_uri, options, runner):
    runner.run("s", load_modules, {}, [{}])
job_main({"s": Job(run)})
"""


def submit(script: Path, *arguments: str, environ: Mapping[str, str], **conf: str) -> tuple[int, str]:
    home = spark_home()
    assert home is not None
    environ = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(ROOT), **environ}
    command = [str(home / "bin" / "spark-submit")]
    for key, value in {"spark.master": "local[1]", **submit_conf(environ), **conf}.items():
        command += ["--conf", f"{key}={value}"]
    done = subprocess.run(
        [*command, str(script), *arguments],
        env=environ,
        cwd=script.parent,  # Python's `-m` would find this package in the folder of the sources
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def seen(tmp_path: Path, environ: Mapping[str, str], **conf: str) -> dict[str, Any]:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    code, said = submit(script, environ=environ, **conf)
    assert code == 0, said
    (line,) = (line for line in said.splitlines() if line.startswith("SEEN "))
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


def test_a_driver_that_is_the_whole_cluster_is_reached_from_here_only_and_keeps_the_tasks_python(
    tmp_path: Path,
) -> None:
    executors = {"PYSPARK_PYTHON": "/opt/of/the/executors/python"}
    found = seen(tmp_path, executors, **{"spark.python.daemon.module": "pyspark.daemon"})
    assert found["python"] == sys.executable
    assert found["spark.pyspark.python"] == "/opt/of/the/executors/python"
    assert (found["spark.master"], found["spark.driver.host"]) == ("local[1]", "127.0.0.1")
    assert found["spark.python.daemon.module"] == "pyspark.daemon"


def test_settings_of_spark_submit_count_and_a_cluster_is_not_taken_for_this_machine(tmp_path: Path) -> None:
    """Executors elsewhere cannot reach a driver at 127.0.0.1."""
    mine = {"spark.master": "spark://nowhere:7077", "spark.speculation": "true", "spark.app.name": "mine"}
    found = seen(tmp_path, {}, **mine)
    assert {name: found[name] for name in mine} == mine
    assert "spark.driver.host" not in found
    assert "spark.python.daemon.module" not in found


@pytest.mark.parametrize(
    "daemon", [pytest.param("pyspark.daemon", marks=pytest.mark.long), "airflow_dredge.spark_jobs.daemon"]
)
def test_executors_without_dredge_are_named_and_not_tried_again(tmp_path: Path, daemon: str) -> None:
    packages = tmp_path / "packages"  # what executors need besides
    packages.mkdir()
    for name in ("numpy", "pyarrow", "pyspark", "py4j"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        place = Path(spec.origin).parent
        for found in place.parent.glob(f"{place.name}*"):
            (packages / found.name).symlink_to(found)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH={packages}\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    script = tmp_path / "work.py"
    script.write_text(WORK)
    code, said = submit(
        script,
        *("--step", "s", "--run", "file:///nowhere"),
        environ={"PYSPARK_PYTHON": str(python)},
        **{"spark.python.daemon.module": daemon},
    )
    error = job_error("s", code, said.splitlines())
    assert isinstance(error, ConfigError), said[-3000:]
    assert f"Install dredge=={__version__}" in str(error)
    assert RETRY_BY_FAMILY.evaluate(error, 1, 3).action is RetryAction.FAIL
