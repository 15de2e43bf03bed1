"""A job as a program: arguments, exit codes, the last line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_dredge.spark_jobs.archive import spark_home
from airflow_dredge.spark_jobs.session import submit_conf

pytestmark = pytest.mark.system


def spark_submit(script: Path, *arguments: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    home = spark_home()
    assert home is not None
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for key, value in submit_conf().items():
        command += ["--conf", f"{key}={value}"]
    done = subprocess.run(
        [*command, str(script), *arguments],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_error_in_a_task_ends_with_its_familys_code(tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        "from airflow_dredge.spark_jobs.job import Job, job_main\n"
        "from tests.support.spark import fail_some\n"
        "def run(run_uri, options, runner):\n"
        "    tasks = [{'value': 1}, {'value': 2, 'fail': 'refused'}]\n"
        f"    runner.run('s', fail_some, {{'folder': {str(tmp_path)!r}}}, tasks)\n"
        "job_main({'s': Job(run)})\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    code, said = spark_submit(script, "--step", "s", "--run", "file:///nowhere", env={"PYTHONPATH": root})
    assert code == 3
    assert said.strip().splitlines()[-1] == "dredge: refused: head of main is new"
    assert "\tat " not in said
