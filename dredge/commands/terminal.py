"""What a long command says while it works: on a terminal a bar with the time that is left, elsewhere a line every few
seconds."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import click

from dredge.errors import PartialError, UnavailableError
from dredge.runs.clock import utc_now
from dredge.runs.tasks import PROGRESS


class TerminalHandler(logging.Handler):
    """Writes log lines, and draws those about progress as one bar where the total is known.

    Args:
        stream: where to; bars are drawn only on a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._bar: Any = None  # of click's

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or move the bar."""
        progress = getattr(record, PROGRESS, None)
        if progress is not None and progress["total"] and self._stream.isatty():
            self._move(progress)
            return
        self._finish()
        click.echo(self.format(record), file=self._stream)

    def close(self) -> None:
        """End the line of a bar."""
        self._finish()
        super().close()

    def _move(self, progress: dict[str, Any]) -> None:
        label = f"{progress['step']} ({progress['unit']})"
        if self._bar is None or self._bar.label != label:
            self._finish()
            self._bar = click.progressbar(
                length=progress["total"], label=label, file=self._stream, show_pos=True
            )
            # It is first heard of after some seconds of work, which count for the time that is left.
            self._bar.start = self._bar.last_eta = utc_now().timestamp() - progress["seconds"]
            self._bar.render_progress()
        self._bar.update(max(0, min(progress["done"], progress["total"]) - self._bar.pos))

    def _finish(self) -> None:
        if self._bar is not None:
            self._bar.render_finish()
            self._bar = None


def show_progress(quiet: bool) -> None:
    """Let the command say on standard error what it does.

    Args:
        quiet: it says nothing but errors; warnings are in the report.
    """
    if quiet:
        logging.basicConfig(level=logging.ERROR, format="%(message)s")  # else Python prints warnings
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[TerminalHandler(sys.stderr)])


@contextmanager
def naming_resume(command: str, run_uri: str) -> Iterator[None]:
    """Say how a local run goes on that a service or a missing right has stopped.

    Args:
        command: the group of commands, such as `dredge gc`.
        run_uri: URI of the run's folder.
    """
    try:
        yield
    except (UnavailableError, PartialError):
        click.echo(f"Go on with: {command} resume {run_uri}", err=True)
        raise
