"""Links between entities stay consistent through removals, crashes and races."""

import pytest

from dredge.lakefs.files.messages import graveler_pb2
from lakefs_embedded.errors import CredentialsNotFoundError
from lakefs_embedded.kv import open_store
from tests.support.auth_directory import filled, keys, names


def test_records_are_where_a_real_server_has_them() -> None:
    kv = open_store("memory://")
    filled(kv)
    found = keys(kv)
    assert {
        "users/user-a",
        "groups/group-a",
        "policies/policy-a",
        "uCredentials/user-a/credentials/KEY-a",
        "gUsers/group-a/users/user-b",
        "uPolicies/user-a/policies/policy-b",
        "gPolicies/group-a/policies/policy-b",
    } <= found
    assert len(found) == 6 + 2 + 12
    index = graveler_pb2.SecondaryIndex.FromString(kv.get(b"auth", b"gUsers/group-a/users/user-b"))
    assert index.primary_key == b"users/user-b"
    index = graveler_pb2.SecondaryIndex.FromString(kv.get(b"auth", b"gPolicies/group-a/policies/policy-b"))
    assert index.primary_key == b"policies/policy-b"


def test_a_link_to_a_missing_entity_is_skipped() -> None:
    kv = open_store("memory://")
    made = filled(kv)
    kv.delete(b"auth", b"policies/policy-a")
    kv.delete(b"auth", b"users/user-b")
    assert names(made.policies.list_of_user("user-a", amount=9)) == ["policy-b"]
    assert names(made.policies.list_effective("user-a", amount=9)) == ["policy-b"]
    assert names(made.groups.list_members("group-a", amount=9)) == ["user-a"]
    with pytest.raises(CredentialsNotFoundError):
        made.credentials.find("KEY-b")
