"""The words of `dredge serve`; the process itself is a system test."""

import sys

import pytest
from click.testing import CliRunner

from dredge.errors import ConfigError
from lakefs_embedded.serve import command


def test_without_the_libraries_of_the_server_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lakefs_embedded.server", None)
    error = CliRunner().invoke(command, ["--data", "lake"]).exception
    assert isinstance(error, ConfigError)
    assert "extra `server`" in str(error)
