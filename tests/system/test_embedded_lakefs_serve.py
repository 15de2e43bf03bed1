"""`dredge serve` as a process: ready line, signals, exit codes, secrets."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lakefs
import pytest
import urllib3

pytestmark = pytest.mark.system


def start(*args: str, **env: str) -> subprocess.Popen[str]:
    code = "from dredge.cli import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "LAKECTL_"))}
    return subprocess.Popen(
        [sys.executable, "-c", code, "serve", *args],
        env=clean | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def served(*args: str, **env: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A running server and its ready line; killed at the end if it still runs."""
    process = start(*args, "--listen", "127.0.0.1:0", "--json", **env)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.stderr and process.stderr.read()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.communicate()


def client(ready: dict[str, Any], secret: str) -> lakefs.Client:
    return lakefs.Client(host=ready["endpoint"], username=ready["access_key_id"], password=secret)


def test_an_interrupt_stops_it_with_0(tmp_path: Path) -> None:
    with served("--data", str(tmp_path)) as (process, ready):
        assert urllib3.request("GET", f"{ready['endpoint']}/healthcheck").status == 204
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_request_under_way_is_finished_before_it_stops(tmp_path: Path) -> None:
    with served("--data", str(tmp_path)) as (process, ready):
        branch = lakefs.Repository("shop", client(ready, ready["secret_access_key"]))
        branch.create(ready["storage_namespace"].replace("<repository>", "shop"))

        def slowly() -> Iterator[bytes]:
            for _ in range(10):
                time.sleep(0.05)
                yield b"x" * 1000

        headers = urllib3.make_headers(basic_auth=f"{ready['access_key_id']}:{ready['secret_access_key']}")
        url = f"{ready['endpoint']}/repositories/shop/branches/main/objects?path=a"
        with ThreadPoolExecutor(1) as pool:
            upload = pool.submit(urllib3.request, "POST", url, body=slowly(), headers=headers)
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
            assert upload.result().status == 201
        assert process.wait(20) == 0


def test_the_secret_is_shown_once_and_found_again(tmp_path: Path) -> None:
    with served("--data", str(tmp_path)) as (process, first):
        lakefs.Repository("shop", client(first, first["secret_access_key"])).create(
            first["storage_namespace"].replace("<repository>", "shop")
        )
        process.terminate()
        process.wait(20)
    with served("--data", str(tmp_path)) as (_, second):
        assert "secret_access_key" not in second
        assert (
            json.loads(Path(second["secrets_file"]).read_text())["secret_access_key"]
            == first["secret_access_key"]
        )
        assert [each.id for each in lakefs.repositories(client(second, first["secret_access_key"]))] == [
            "shop"
        ]


def test_a_given_key_pair_is_used_and_never_shown(tmp_path: Path) -> None:
    pair = {
        "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "MYKEY",
        "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "my-own-secret",
    }
    with served("--data", str(tmp_path), "--access-log", **pair) as (process, ready):
        assert ready["access_key_id"] == "MYKEY"
        assert list(lakefs.repositories(client(ready, "my-own-secret"))) == []
        process.terminate()
        out, err = process.communicate()
    assert "my-own-secret" not in json.dumps(ready) + out + err
    assert "GET /api/v1/repositories 200" in err


@pytest.mark.parametrize(
    ("args", "env"), [([], {}), (["--data", "lake"], {"LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "hush"})]
)
def test_wrong_input_ends_it_with_2_and_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], env: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    process = start(*args, **env)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "Traceback" not in err
    assert "hush" not in err
