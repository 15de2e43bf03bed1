"""The address of a Spark Connect server, as a run has it."""

from __future__ import annotations

from airflow_dredge.operators.spark_master import remote_of_run


def test_connect_address_has_one_session_for_all_steps_of_a_run_and_no_token() -> None:
    first, token = remote_of_run("sc://spark:15002/;user_id=me;token=hunter2;use_ssl=true", "s3://b/run1")
    again, _ = remote_of_run("sc://spark:15002/;user_id=me", "s3://b/run1")
    other, _ = remote_of_run("sc://spark:15002", "s3://b/run2")
    assert token == "hunter2"
    assert "hunter2" not in first
    assert first.startswith("sc://spark:15002/;user_id=me;use_ssl=true;session_id=")
    assert again.rpartition("=")[2] == first.rpartition("=")[2]
    assert other.rpartition("=")[2] != first.rpartition("=")[2]
