"""A job as a program: arguments, exit codes, the last line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from airflow_dredge.spark_jobs.archive import ensure_archive, spark_home
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


def machines_archive() -> Path:
    """The archive of this machine; another process may be building it."""
    deadline = time.monotonic() + 240
    while (built := ensure_archive()) is None:
        assert time.monotonic() < deadline, "there is no class archive"
        time.sleep(0.5)
    return built


def test_settings_for_spark_submit_fit_a_path_with_spaces(tmp_path: Path) -> None:
    built = machines_archive()
    cache = tmp_path / "a cache"
    cache.mkdir()
    (cache / built.name).symlink_to(built)
    assert_started_with_archive(tmp_path, cache)


@pytest.mark.long  # elsewhere the machine's archive is built on first use, and used from then on
def test_archive_is_built_in_a_path_with_spaces(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    cache.mkdir()
    assert_started_with_archive(tmp_path, cache)


def assert_started_with_archive(tmp_path: Path, cache: Path) -> None:
    """Start a JVM with the settings as they are with a cache folder, and have it say how it was started."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow_dredge.spark_jobs.session"],
        env={**os.environ, "DREDGE_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    options = json.loads(done.stdout)["spark.driver.extraJavaOptions"]
    (archive,) = cache.glob("*.jsa")
    assert f'"-XX:SharedArchiveFile={archive}"' in options
    script = tmp_path / "a job.py"
    script.write_text(
        "from pyspark.java_gateway import launch_gateway\n"
        "management = launch_gateway().jvm.java.lang.management.ManagementFactory\n"
        "arguments = management.getRuntimeMXBean().getInputArguments()\n"
        "print('JVM', list(arguments))\n"
    )
    home = spark_home()
    assert home is not None
    ran = subprocess.run(
        [
            str(home / "bin" / "spark-submit"),
            *("--master", "local[1]"),
            *("--conf", f"spark.driver.extraJavaOptions={options}"),
            str(script),
        ],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert f"-XX:SharedArchiveFile={archive}" in ran.stdout
