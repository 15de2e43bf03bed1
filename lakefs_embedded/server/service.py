"""Build a server from its settings: stores, catalog, accounts, application."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from starlette.types import ASGIApp

from dredge.errors import ConfigError, ConflictError
from dredge.storage import ObjectWriter
from lakefs_embedded.auth import Accounts
from lakefs_embedded.catalog import Catalog
from lakefs_embedded.kv import Store, open_store
from lakefs_embedded.server.app import create_app
from lakefs_embedded.server.authentication import Authenticator
from lakefs_embedded.server.fault_injection import FaultInjector
from lakefs_embedded.server.housekeeping import Housekeeping
from lakefs_embedded.server.namespaces import Namespaces
from lakefs_embedded.server.requests import Backend
from lakefs_embedded.server.settings import ServerSettings
from lakefs_embedded.server.usage import Usage

type Clock = Callable[[], datetime]
type OpenNamespace = Callable[[str], ObjectWriter]

SCHEMA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION = b"kv-internal-metadata", b"kv/schema/version", b"4"


def utc_now() -> datetime:
    """Return the time of this machine's clock, aware UTC."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Service:
    """All parts of a running server."""

    app: ASGIApp
    backend: Backend
    faults: FaultInjector
    kv: Store
    resources: ExitStack

    @classmethod
    def build(
        cls,
        settings: ServerSettings,
        *,
        kv: Store | None = None,
        open_namespace: OpenNamespace | None = None,
        clock: Clock = utc_now,
        faults: FaultInjector | None = None,
    ) -> Service:
        """Open the stores and wire the application; raises ConfigError for a store of another lakeFS schema version.

        Args:
            kv: store to use in place of `settings.kv_url`; the caller closes it.
            open_namespace: opens a namespace URI in place of the block store of the settings, for tests.
        """
        with ExitStack() as opening:
            if kv is None:
                kv = open_store(settings.kv_url)
                opening.callback(kv.close)
            check_schema(kv)
            namespaces = Namespaces(settings)
            catalog = Catalog(kv, open_namespace or namespaces.open, clock, settings.catalog_settings)
            opening.callback(catalog.close)
            accounts = _accounts(settings, kv, clock)
            authenticator = Authenticator(
                accounts,
                signing_key=settings.signing_key,
                login_seconds=settings.login_seconds,
                clock=clock,
            )
            catalog.resume()  # finish what an earlier process left undone
            opening.callback(Housekeeping(catalog.expire_tracked, settings.housekeeping_seconds).close)
            backend = Backend(catalog, settings, accounts, authenticator, namespaces, Usage(kv, clock))
            faults = FaultInjector() if faults is None else faults
            app = create_app(backend, faults)
            return cls(app, backend, faults, kv, opening.pop_all())

    def close(self) -> None:
        """Finish background work and close the stores opened by `build`."""
        self.resources.close()


def _accounts(settings: ServerSettings, kv: Store, clock: Clock) -> Accounts:
    own = settings.credentials
    owner = None if own is None else (own.user_name, own.access_key_id, own.secret_access_key)
    return Accounts(kv, signing_key=settings.signing_key, clock=clock, owner=owner)


def check_schema(kv: Store) -> None:
    """Write lakeFS's schema version to a new store, and check an existing one; raises ConfigError."""
    try:
        kv.set_if(SCHEMA_PARTITION, SCHEMA_KEY, SCHEMA_VERSION, None)
    except ConflictError:
        found = kv.get(SCHEMA_PARTITION, SCHEMA_KEY)
        if found != SCHEMA_VERSION:
            raise ConfigError(
                f"the key-value store has lakeFS schema {found.decode(errors='replace')}, this server needs "
                f"{SCHEMA_VERSION.decode()}. Nothing was changed."
            ) from None
