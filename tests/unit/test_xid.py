"""Ids are made and read as a server does; vectors from lakeFS."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dredge.errors import FormatError
from dredge.xid import ascending_time, descending_time, is_xid, new_descending_xid, new_xid

IDS = json.loads((Path(__file__).parents[1] / "fixtures/lakefs/ids.json").read_text())

TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2106, 2, 7), timezones=st.just(UTC))


@pytest.mark.parametrize("vector", IDS["run_ids"], ids=lambda v: str(v["run_id"]))
def test_run_ids_of_a_server_decode_to_their_time(vector: dict[str, int | str]) -> None:
    assert descending_time(str(vector["run_id"])).timestamp() == vector["decoded"]


def test_the_published_run_id_decodes() -> None:
    assert descending_time("g4uk6erfnfus73frbnqg") == datetime(2025, 11, 10, 10, 34, 45, tzinfo=UTC)


def test_a_server_path_holds_a_descending_slice_and_an_ascending_name() -> None:
    _, slice_id, name = IDS["data_paths"][0]["path"].split("/")
    assert timedelta(0) <= ascending_time(name) - descending_time(slice_id) < timedelta(hours=1)


@given(TIMES)
def test_time_survives_to_the_second(now: datetime) -> None:
    assert ascending_time(new_xid(now)) == now.replace(microsecond=0)
    assert descending_time(new_descending_xid(now)) == now.replace(microsecond=0)


@given(TIMES, st.timedeltas(timedelta(seconds=1), timedelta(days=3650)))
def test_newer_ids_sort_last_ascending_and_first_descending(now: datetime, later: timedelta) -> None:
    if (now + later).year < 2106:
        assert new_xid(now) < new_xid(now + later)
    if (now + later).year < 2094:  # the 32 bits of the count down wrap in July of that year
        assert new_descending_xid(now) > new_descending_xid(now + later)


def test_ids_of_one_second_differ() -> None:
    now = datetime.now(UTC)
    assert len({new_xid(now) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    "text",
    [
        "",
        "g4uk6erfnfus73frbnq",
        "g4uk6erfnfus73frbnqgg",
        "G4UK6ERFNFUS73FRBNQG",
        "g4uk6erfnfus73frbnqw",
        "x" * 20,
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    assert not is_xid(text)
    with pytest.raises(FormatError):
        ascending_time(text)
    with pytest.raises(FormatError):
        descending_time(text)
