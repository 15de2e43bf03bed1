import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dredge.xid import ascending_time
from lakefs_embedded.catalog.signing import sign_address, verify_address

VECTORS = json.loads((Path(__file__).parents[3] / "fixtures" / "lakefs" / "ids.json").read_text())[
    "signed_addresses"
]
SECRET = VECTORS["secret_key"]
DAY = timedelta(hours=24)


@pytest.mark.parametrize("vector", VECTORS["vectors"])
def test_signatures_equal_the_servers(vector: dict[str, Any]) -> None:
    signed = sign_address(
        SECRET, vector["repository"], vector["branch"], vector["path"], vector["physical_address"]
    )
    assert signed == vector["signed"]


def verify(age: timedelta = timedelta(), **changes: Any) -> None:
    vector = VECTORS["vectors"][1]
    words = {"repository": vector["repository"], "branch": vector["branch"], "path": vector["path"]}
    words |= {"signed": vector["signed"], "secret": SECRET} | changes
    handed_out = ascending_time(vector["physical_address"].rpartition("/")[2])
    verify_address(**words, now=handed_out + age, expiry=DAY)


@pytest.mark.parametrize("age", [timedelta(), timedelta(hours=23.9), DAY])
def test_an_address_may_be_linked_for_24_hours(age: timedelta) -> None:
    verify(age)
