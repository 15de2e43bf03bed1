"""The class archive: built once, never in the way."""

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

from airflow_dredge.spark_jobs import archive


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    return {
        "JAVA_HOME": str(tmp_path / "jdk"),
        "SPARK_HOME": str(tmp_path / "spark"),
        "DREDGE_CACHE_DIR": str(tmp_path / "cache"),
        "PATH": os.environ["PATH"],
    }


class Builder:
    def __init__(self, works: bool = True) -> None:
        self.works, self.calls = works, 0

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls += 1
        options = command[command.index("--driver-java-options") + 1]
        if self.works:
            Path(options.partition("-XX:ArchiveClassesAtExit=")[2].partition('"')[0]).write_bytes(b"dump")
        return subprocess.CompletedProcess(command, 0 if self.works else 1, "", "no room")


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    stand_in = Builder()
    monkeypatch.setattr(archive.subprocess, "run", stand_in)
    return stand_in


def test_archive_is_built_on_first_use_and_once(environ: dict[str, str], builder: Builder) -> None:
    first, second = archive.ensure_archive(environ), archive.ensure_archive(environ)
    assert first is not None
    assert first == second
    assert first.read_bytes() == b"dump"
    assert builder.calls == 1


def test_other_jars_or_another_java_get_an_archive_of_their_own(
    environ: dict[str, str], builder: Builder
) -> None:
    first = archive.ensure_archive(environ)
    os.utime(Path(environ["SPARK_HOME"]) / "jars", (1, 1))
    second = archive.ensure_archive(environ)
    os.utime(Path(environ["JAVA_HOME"]) / "bin" / "java", (1, 1))
    third = archive.ensure_archive(environ)
    assert len({first, second, third}) == 3


def test_who_comes_while_another_builds_goes_on_without(environ: dict[str, str], builder: Builder) -> None:
    path = archive.archive_path(environ)
    assert path is not None
    path.parent.mkdir()
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert archive.ensure_archive(environ) is None
    assert builder.calls == 0
    assert archive.ensure_archive(environ) == path


def test_failed_build_is_logged_and_not_tried_at_every_start(
    environ: dict[str, str], builder: Builder, caplog: pytest.LogCaptureFixture
) -> None:
    builder.works = False
    assert archive.ensure_archive(environ) is None
    assert archive.ensure_archive(environ) is None
    assert builder.calls == 1
    assert "could not be built: no room" in caplog.text
    cache = Path(environ["DREDGE_CACHE_DIR"])
    assert not list(cache.glob("*.jsa"))
    assert not list(cache.glob(".build-*"))


@pytest.mark.parametrize("word", ["off", "0", "no", "False"])
def test_archive_can_be_switched_off(environ: dict[str, str], builder: Builder, word: str) -> None:
    assert archive.ensure_archive(environ | {"DREDGE_SPARK_ARCHIVE": word}) is None
    assert builder.calls == 0


def test_options_without_an_archive_still_suit_short_jobs() -> None:
    assert archive.java_options(None).split() == list(archive.SHORT_JOB_OPTIONS)


def test_an_archive_stays_where_it_was_made_for_and_no_java_refuses_to_start_over_it() -> None:
    options = archive.java_options(Path("/c.jsa")).split()
    assert options.index("-XX:+UnlockDiagnosticVMOptions") < options.index("-XX:ArchiveRelocationMode=0")
    assert "-XX:+IgnoreUnrecognizedVMOptions" in options
