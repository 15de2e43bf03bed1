"""How a Spark step is started, told its secrets, killed, and how its error comes back."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_dredge.operators.lakefs.mark_sweep import LakeFSSliceListingOperator
from airflow_dredge.operators.spark import job_error, merged_conf, own_spark_home
from dredge.errors import (
    ConfigError,
    DredgeError,
    FormatError,
    LeaseHeldError,
    RefusedError,
    UnavailableError,
)
from tests.support.airflow import connections


def test_missing_spark_connection_is_an_error_not_yarn() -> None:
    operator = LakeFSSliceListingOperator(task_id="slice_listing", run_uri="s3://bucket/run")
    with connections(spark_default=None), pytest.raises(ConfigError):
        operator.submit({})


def test_settings_of_the_user_win_and_jvm_options_add_up() -> None:
    defaults = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Xone"}
    conf = {"spark.ui.enabled": "true", "spark.driver.extraJavaOptions": "-Xtwo", "spark.x": 1}
    assert merged_conf(defaults, conf) == {
        "spark.ui.enabled": "true",
        "spark.driver.extraJavaOptions": "-Xone -Xtwo",
        "spark.x": "1",
    }
    assert merged_conf(defaults, {}) == defaults
    assert merged_conf({}, defaults) == defaults


def test_an_error_is_told_by_a_family_and_by_words_or_not_at_all() -> None:
    class AnotherError(UnavailableError):
        exit_code = 5

    class ForeignError(DredgeError):
        exit_code = 4

    said = ["dredge: unavailable: 503"]
    assert type(job_error("plan", 4, said)) is UnavailableError
    assert type(job_error("plan", LeaseHeldError.exit_code, said)) is RefusedError
    assert type(job_error("plan", 5, said)) is FormatError
    assert job_error("plan", 4, ["no word of it"]) is None
    for code in (None, 0, 1, 77):
        assert job_error("plan", code, said) is None
    del AnotherError, ForeignError
    gc.collect()


@pytest.fixture(autouse=True)
def _no_threads_left() -> Iterator[None]:
    yield
    assert [thread for thread in threading.enumerate() if thread.name.startswith("lease")] == []


def test_own_spark_submit_is_told_its_home_and_a_users_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert own_spark_home(str(tmp_path)) == {}
    own = own_spark_home(str(Path(sys.executable).parent))
    assert (Path(own["SPARK_HOME"]) / "bin" / "spark-class").exists()
    users = tmp_path / "spark-submit"
    users.write_text("#!/bin/sh\n")
    users.chmod(0o755)
    assert own_spark_home(str(tmp_path)) == {}
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert own_spark_home(str(Path(sys.executable).parent)) == {}
