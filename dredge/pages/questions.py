"""Answers "why is this object here?" for the pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dredge.gc.insight.why import why
from dredge.gc.insight.why_answer import answer_lines, find_target
from dredge.gc.plan import RUNS
from dredge.lakefs import LakeFS
from dredge.pages.places import Place
from dredge.runs.clock import Clock, utc_now


class Asker(Protocol):
    """Who can say what keeps an object."""

    def lines(self, what: str, place: Place | None) -> list[str]:
        """Say it in lines of text.

        Args:
            what: an address, or `lakefs://repository/ref/path`.
            place: whose address it is, where that does not say it.
        """


class ServerAsker:
    """Asks a lakeFS server, the store and what runs left.

    Args:
        client: gives the server; asked once a question, so that credentials may change.
        clock: this machine's.
    """

    def __init__(self, client: Callable[[Place | None], LakeFS], clock: Clock = utc_now) -> None:
        self._client = client
        self._clock = clock

    def lines(self, what: str, place: Place | None) -> list[str]:
        """See `Asker`.

        Raises:
            ConfigError: it cannot be told what is asked about.
            NotFoundError: no such repository or path.
        """
        client = self._client(place)
        repository = None if place is None else place.repository or place.name
        options = None if place is None else place.options
        target = find_target(client, what, repository, options)
        root = None
        if (
            place is not None
            and place.store_uri
            and place.runs_uri != f"{place.store_uri.rstrip('/')}/{RUNS}"
        ):
            root = place.runs_uri
        return list(answer_lines(why(client, target, self._clock(), root, options=options)))
