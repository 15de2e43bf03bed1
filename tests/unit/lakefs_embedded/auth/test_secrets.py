"""Secrets at rest."""

from __future__ import annotations

import pytest

from dredge.errors import FormatError
from lakefs_embedded.auth.secrets import SecretBox


def test_the_same_secret_is_sealed_differently_each_time() -> None:
    box = SecretBox("k")
    assert box.seal("s", b"x") != box.seal("s", b"x")
    assert box.open(box.seal("sécret", b"x"), b"x") == "sécret"
    for damaged in (b"", b"\x01", b"\x02" + box.seal("s", b"x")[1:], box.seal("s", b"x")[:-1]):
        with pytest.raises(FormatError):
            box.open(damaged, b"x")
