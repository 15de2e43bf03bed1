"""A KV URL with a secret, whatever its form: the secret is on no terminal and in no file of a run."""

from pathlib import Path

import pytest

from dredge.cli import main
from dredge.gc.mark_uncommitted.kv_store import URL
from dredge.lakefs.client import ACCESS_KEY, ENDPOINT, SECRET_KEY
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.secrets import SECRET, files_with_secret


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"host=127.0.0.1 port=1 user=lakefs password={SECRET} dbname=lakefs", 4),
        (f"postgres://lakefs:{SECRET}/x@127.0.0.1:1/lakefs", 2),
        (f"postgres://lakefs:x@{SECRET}@127.0.0.1:1/lakefs", 2),
        (f"postgres://lakefs:{SECRET}[@127.0.0.1:1/lakefs", 2),
        (f"lakefs:{SECRET}@127.0.0.1", 2),
    ],
)
def test_a_run_that_cannot_read_the_store_tells_no_secret(
    url: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "dredge")
    with lakefs_server(tmp_path / "lake") as lake:
        lake.repository("lake").branch("main").object("a").upload(b"x")
        monkeypatch.setenv(URL, url)
        monkeypatch.setenv(ENDPOINT, lake.server.endpoint)
        monkeypatch.setenv(ACCESS_KEY, KEY_PAIR.access_key_id)
        monkeypatch.setenv(SECRET_KEY, KEY_PAIR.secret_access_key)
        with pytest.raises(SystemExit) as ended:
            main(["gc", "run", "lake", "--read-kv"])
    said = capsys.readouterr()
    assert ended.value.code == code
    assert SECRET not in said.out + said.err + caplog.text
    names = {path.name for path in tmp_path.rglob("*.json")}
    assert {"_FAILED.json", "report.json"} <= names
    assert files_with_secret(tmp_path) == []


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(
    "endpoint", [f"http://me:{SECRET}@127.0.0.1:1", f"{SECRET}", f"http://127.0.0.1:1/{SECRET}"]
)
def test_the_address_of_a_server_is_not_repeated(
    endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(ENDPOINT, endpoint)
    monkeypatch.setenv(ACCESS_KEY, "key")
    monkeypatch.setenv(SECRET_KEY, "word")
    with pytest.raises(SystemExit) as ended:
        main(["gc", "why", "lakefs://lake/main/a"])
    said = capsys.readouterr()
    assert ended.value.code in (2, 4)
    assert SECRET not in said.out + said.err
