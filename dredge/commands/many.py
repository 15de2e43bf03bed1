"""What commands about many repositories say at their end."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dredge.runs.report import Outcome


def log_lines(quiet: bool) -> None:
    """Let the command say on standard error what it does: in lines, because several runs may be at work.

    Args:
        quiet: it says nothing.
    """
    if not quiet:
        logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)


def tell_of_all(
    outcomes: Sequence[Outcome], skipped: Mapping[str, str], root: str, label: str, as_json: bool
) -> int:
    """Write the page about all repositories, and show it.

    Args:
        outcomes: of those that had a run.
        skipped: why others had none, by name.
        root: URI of the folder for the page; "" writes none.
        label: begins the name of the page.
        as_json: shows one JSON object.

    Returns:
        The exit code: 9 when some of them need a look.
    """
    from dredge.runs.clock import utc_now
    from dredge.runs.report import left_out, save_summary, summarize, summary_lines
    from dredge.xid import new_descending_xid

    now = utc_now()
    summary = summarize([*outcomes, *(left_out(name, why) for name, why in skipped.items())], now)
    page = save_summary(summary, root, f"{label}-{new_descending_xid(now)}") if root else ""
    if as_json:
        click.echo(json.dumps({**summary, "report_uri": page}))
    else:
        for line in summary_lines(summary):
            click.echo(line)
        if page:
            click.echo(f"\nsummary {page}")
    return 9 if summary["counts"]["failed_repositories"] else 0
