"""The screenshot of a run's page in the README: `python -m demo.picture` renews docs/run-page.png.

The script collects a small demo lake without Airflow and Spark, and renders the page with a headless
Chromium.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import click
from lakefs.client import Client

from demo.kinds import plant_all
from demo.lake import Lake
from dredge.gc.config import GCConfig
from dredge.gc.steps import collect
from dredge.lakefs import LakeFSClient
from dredge.runs.tasks import LocalRunner

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "run-page.png"
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_SERVE = "from dredge.cli import main; main()"
_ADDRESS = "127.0.0.1:8091"
_READY_SECONDS = 60


def main() -> None:
    """Make the picture."""
    browser = next(filter(None, map(shutil.which, _CHROMIUM)), None)
    if browser is None:
        raise click.ClickException("there is no Chromium: install the package chromium")
    with tempfile.TemporaryDirectory(prefix="dredge-demo-") as folder:
        run = _collected(Path(folder))
        command = [sys.executable, "-c", _SERVE, "ui", run, "--listen", _ADDRESS]
        with subprocess.Popen(command) as pages:
            try:
                _draw(browser, _find_page(run), folder)
            finally:
                pages.terminate()
    click.echo(PICTURE)


def _collected(folder: Path) -> str:
    """Plant a lake and collect it; returns the run folder."""
    from lakefs_embedded.server import ServerSettings, ThreadedServer

    with ThreadedServer(ServerSettings.for_folder(folder / "lakefs")) as server:
        key, secret = server.access_key_id, server.secret_access_key
        client = Client(host=server.endpoint, username=key, password=secret)
        namespace = f"local://{folder / 'lakefs' / 'objects' / 'demo'}"
        plant_all(Lake.create(client, "demo", namespace), 0.2)
        time.sleep(2)  # older than the minimum age, by a clock of whole seconds
        config = GCConfig(
            repository="demo",
            dry_run=False,
            unsafe_min_age_seconds=1,
            unsafe_grace_seconds=0,
            max_delete_percent=None,
            keep_unnamed_days=0,
        )
        found = collect(config, LocalRunner(), LakeFSClient(server.endpoint, key, secret))
    return f"{folder}/lakefs/objects/demo/_lakefs/retention/gc/unified/{found.run_id}"


def _find_page(run: str) -> str:
    """Return the address of a run's page, after the server started."""
    name, until = run.rpartition("/")[2], time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://{_ADDRESS}/", timeout=10) as answer:
                links = answer.read().decode().split('href="')
            return next(
                f"http://{_ADDRESS}/{link.partition('"')[0]}" for link in links if f"run/{name}" in link
            )
        except OSError:
            time.sleep(0.5)
    raise click.ClickException("the pages did not start")


def _draw(browser: str, page: str, folder: str) -> None:
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1200,1000"]
    options += ["--virtual-time-budget=6000", f"--user-data-dir={folder}/browser", f"--screenshot={PICTURE}"]
    subprocess.run([browser, *options, page], check=True, capture_output=True, timeout=120)


if __name__ == "__main__":
    main()
