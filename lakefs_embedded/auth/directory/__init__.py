"""The user directory: users, groups, policies and credentials in the key-value store, uncached.

    directory.users.create("jane")
    directory.groups.add_member("Viewers", "jane")
    directory.policies.attach_to_user("FSReadAll", "jane")
    directory.credentials.add("jane", access_key_id, secret)

One module per entity; `records.py` keeps the links between them consistent.

Source: design "lakeFS on KV" (data modeling: IAM); lakeFS pkg/auth, contrib/auth/acl/service.go.
"""

from __future__ import annotations

from collections.abc import Callable

from lakefs_embedded.auth.directory.credentials import CredentialStore
from lakefs_embedded.auth.directory.groups import GroupStore
from lakefs_embedded.auth.directory.policies import PolicyStore
from lakefs_embedded.auth.directory.records import AuthRecords, Page
from lakefs_embedded.auth.directory.users import UserStore
from lakefs_embedded.auth.model import Clock
from lakefs_embedded.auth.secrets import SecretBox
from lakefs_embedded.kv import Store

__all__ = ["Directory", "Page"]


class Directory:
    """All stored entities."""

    def __init__(
        self, kv: Store, box: SecretBox, clock: Clock, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self.records = AuthRecords(kv, on_change)
        self.users = UserStore(self.records, clock)
        self.groups = GroupStore(self.records, self.users, clock)
        self.policies = PolicyStore(self.records, self.users, self.groups, clock)
        self.credentials = CredentialStore(self.records, self.users, box, clock)
