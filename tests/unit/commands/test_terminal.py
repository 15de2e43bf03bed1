"""What a long command says: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import io
import logging

from dredge.commands.terminal import TerminalHandler
from dredge.runs.progress import PROGRESS


class Terminal(io.StringIO):
    """A text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def said(stream: io.StringIO, total: int | None = 1000) -> str:
    """What stands there after a line, two looks at a step's progress and another line."""
    handler = TerminalHandler(stream)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.Logger("dredge")
    log.addHandler(handler)
    log.info("listing starts")
    for done, seconds in ((250, 5.0), (500, 10.0)):
        told = {"step": "listing", "unit": "objects", "done": done, "total": total, "seconds": seconds}
        log.info("listing: %d", done, extra={PROGRESS: told})
    log.info("listing ends")
    return stream.getvalue()


def test_a_terminal_gets_one_bar_with_the_time_that_is_left() -> None:
    shown = said(Terminal())
    bar = shown.partition("listing starts\n")[2].partition("listing ends")[0]
    assert "listing (objects)" in bar
    assert "500/1000" in bar
    assert "00:00:1" in bar, "half is done after ten seconds, so about ten are left"
    assert "listing: 500" not in shown
    assert shown.endswith("\nlisting ends\n"), "a line never hangs on a bar"


def test_a_file_gets_lines() -> None:
    assert said(io.StringIO()).splitlines() == [
        "listing starts",
        "listing: 250",
        "listing: 500",
        "listing ends",
    ]
