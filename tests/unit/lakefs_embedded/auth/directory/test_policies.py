"""Policies under concurrent updates."""

from __future__ import annotations

import pytest

from dredge.kv import open_store
from lakefs_embedded.auth.errors import PolicyNotFoundError
from tests.support.auth_directory import READ, directory, filled, keys
from tests.support.faulty import Operation, WatchedStore


def test_an_update_of_a_policy_never_brings_a_removed_one_back() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    done = []

    def remove_first(operation: Operation) -> None:
        if operation.name == "set_if" and not done:
            done.append(True)
            made.policies.delete("policy-a")

    with pytest.raises(PolicyNotFoundError):
        directory(WatchedStore(kv, before=remove_first)).policies.update("policy-a", READ)
    assert "policies/policy-a" not in keys(kv)
