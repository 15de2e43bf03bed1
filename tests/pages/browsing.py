"""A browser that keeps a picture of every page it is shown, light and dark, and looks whether all can use it."""

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, FrameLocator, Page, sync_playwright

WAIT_SECONDS = 240 * float(os.environ.get("DREDGE_TEST_PATIENCE", "1"))
NARROW = {"width": 400, "height": 900}
WIDE = {"width": 1300, "height": 1000}
SERIOUS = ("critical", "serious", "moderate")
#: What is wrong for who hears a page or walks through it by keys, and axe does not ask.
_STRUCTURE = """() => {
  const problems = [];
  const shown = (item) => item.checkVisibility() && !item.closest("details:not([open]) > :not(summary)");
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(shown).map((item) => Number(item.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) problems.push("not one h1: " + levels);
  if (levels.some((level, at) => at && level > levels[at - 1] + 1)) problems.push("a level is left out: " + levels);
  if (!document.documentElement.lang || !document.title) problems.push("no language or title");
  for (const item of document.querySelectorAll("[tabindex]"))
    if (item.tabIndex > 0) problems.push("jumps in the order: " + item.outerHTML.slice(0, 120));
  for (const item of document.querySelectorAll("input:not([type=hidden]), select, textarea"))
    if (!item.labels.length && !item.ariaLabel) problems.push("no label: " + item.outerHTML.slice(0, 120));
  for (const item of document.querySelectorAll("canvas, img"))
    if (!item.ariaLabel && !item.alt) problems.push("says nothing: " + item.outerHTML.slice(0, 120));
  return problems;
}"""
#: Marks what keys should come to, in the order of the page; gives how many.
_STOPS = """() => {
  const shown = (item) => item.checkVisibility() && !item.closest("details:not([open]) > :not(summary)");
  const wanted = "a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']";
  const found = [...document.querySelectorAll(wanted)].filter(shown);
  found.forEach((item, at) => { item.dataset.stop = at; });
  document.activeElement.blur();
  return found.length;
}"""
#: Where the keys are, and whether it can be seen.
_STOP = """() => {
  const item = document.activeElement, style = getComputedStyle(item), box = item.getBoundingClientRect();
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.right > 0 && box.width > 1;
  return [item.dataset.stop ?? "", seen, item.outerHTML.slice(0, 120)];
}"""
_STOPS_MAX = 40
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@dataclass
class Tour:
    """Somebody at a browser; `problems`, by page, are those of people who cannot see, hear or point well."""

    page: Page
    url: str
    pictures: Path
    problems: dict[str, list[str]] = field(default_factory=dict)

    def open(self, address: str) -> None:
        self.page.goto(f"{self.url}/{address}")

    def dredge(self, address: str = "") -> None:
        """Go to a page of Dredge's, without Airflow's frame."""
        self.open(f"dredge/{address}")

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    def until(self, text: str | re.Pattern[str]) -> None:
        for _ in range(int(WAIT_SECONDS)):
            if self.page.get_by_text(text).count():
                return
            self.page.wait_for_timeout(1000)
            self.page.reload()
        raise AssertionError(
            f"{self.page.url} never said {text!r}:\n{self.page.locator('main').inner_text()}"
        )

    def picture(self, name: str) -> None:
        self.page.wait_for_load_state("load")
        self.page.screenshot(path=self.pictures / f"{name}.png", full_page=True)
        self._has_run_nothing(name)

    def examine(self, name: str) -> None:
        """Keep pictures of a page of Dredge's: light, dark and narrow; and look whether all can use it."""
        for theme in ("light", "dark"):
            self._set_theme(theme)
            self.page.screenshot(path=self.pictures / f"{name}-{theme}.png", full_page=True)
            self._check(f"{name} {theme}", colours_only=theme == "dark")
        self.page.set_viewport_size(NARROW)  # type: ignore[arg-type]
        self.page.screenshot(path=self.pictures / f"{name}-narrow.png", full_page=True)
        wider = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wider > 0:
            self._note(name, f"{wider} pixels wider than a narrow window")
        self.page.set_viewport_size(WIDE)  # type: ignore[arg-type]
        self._walk(name)
        self._has_run_nothing(name)

    def _has_run_nothing(self, name: str) -> None:
        assert self.page.evaluate("window.stolen") is None, f"{name}: a name in the lake was run as a script"

    def airflow_picture(self, name: str) -> None:
        self.page.screenshot(path=self.pictures / f"{name}.png")

    def _set_theme(self, theme: str) -> None:
        """As Airflow keeps it; charts take their colours when they are drawn."""
        self.page.evaluate("theme => localStorage.setItem('theme', theme)", theme)
        if self.page.evaluate("document.documentElement.dataset.theme") != theme:
            self.page.reload()

    def _check(self, name: str, colours_only: bool) -> None:
        options: dict[str, Any] = {"resultTypes": ["violations"]}
        if colours_only:  # the rest is the same in every theme
            options["runOnly"] = ["color-contrast"]
        found = Axe().run(self.page, options=options)
        for item in found.response["violations"]:
            if item["impact"] in SERIOUS:
                self._note(name, f"{item['id']}: {item['help']}: {item['nodes'][0]['html'][:200]}")

    def _walk(self, name: str) -> None:
        """Go through the page by the Tab key."""
        for problem in self.page.evaluate(_STRUCTURE):
            self._note(name, problem)
        for number in range(min(self.page.evaluate(_STOPS), _STOPS_MAX)):
            self.page.keyboard.press("Tab")
            stop, is_seen, what = self.page.evaluate(_STOP)
            if stop != str(number):
                self._note(name, f"the key comes to {what} as number {number}, not {stop or 'of the page'}")
                return
            if not is_seen:
                self._note(name, f"nobody sees that the keys are at {what}")

    def _note(self, name: str, problem: str) -> None:
        self.problems.setdefault(name, []).append(problem)


@contextmanager
def browser() -> Iterator[Browser]:
    path = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    if path is None:
        pytest.fail("there is no Chromium: install the package chromium, or start this by ./run test pages")
    with sync_playwright() as playwright:
        # Without a sandbox: containers and root have none, and it only sees pages of this machine.
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


def fill(page: Page, values: Mapping[str, Any]) -> None:
    """Fill in Airflow's form of a run: truth values are switches, and texts of a list are chosen from it."""
    for name, value in values.items():
        element = page.locator(f"[name=element_{name}]")
        if isinstance(value, bool):
            if element.is_checked() != value:
                element.locator("xpath=ancestor::label").click()
        elif element.get_attribute("type") == "hidden":
            chooser = page.locator(f"#element_{name} input").first
            chooser.fill(str(value))
            chooser.press("Enter")
        else:
            element.fill(str(value))
            element.press("Tab")
