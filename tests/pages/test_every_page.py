"""Every page in every state can be read and used by all: in both themes, on a narrow screen, by keys, by ear."""

import shutil

import pytest

from tests.pages.browsing import WIDE, Tour, browser
from tests.pages.gallery import gallery
from tests.pages.house import ROOT

pytestmark = [pytest.mark.system, pytest.mark.timeout(1800)]

PICTURES = ROOT / ".dredge" / "pictures-of-states"


def test_all_can_use_every_page_in_every_state() -> None:
    shutil.rmtree(PICTURES, ignore_errors=True)
    PICTURES.mkdir(parents=True)
    with gallery() as found, browser() as running:
        tour = Tour(running.new_page(viewport=WIDE), found.url.rstrip("/"), PICTURES)  # type: ignore[arg-type]
        for name, address in found.pages.items():
            tour.open(address)
            assert tour.page.locator("h1").count() == 1, name
            tour.examine(name)
    assert tour.problems == {}
    assert len(list(PICTURES.iterdir())) == 3 * len(found.pages)
