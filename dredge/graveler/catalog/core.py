"""What all calls share: the stores, the clock, and who may write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from dredge.graveler.catalog.settings import Settings
from dredge.kv import Store
from dredge.storage import ObjectWriter

Clock = Callable[[], datetime]


class CatalogCore:
    """Wiring; see Catalog."""

    def __init__(
        self,
        kv: Store,
        open_namespace: Callable[[str], ObjectWriter],
        clock: Clock,
        settings: Settings | None = None,
    ) -> None:
        self.settings = settings or Settings()
        self.clock = clock
        self._kv = kv
        self._open_namespace = open_namespace

    def close(self) -> None:
        """Wait for background work; the stores stay open."""
        raise NotImplementedError
