"""Directories of users, groups and policies for tests, empty or with everything linked to everything."""

from collections.abc import Callable
from datetime import UTC, datetime

from hypothesis import strategies as st

from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory import Directory
from lakefs_embedded.auth.model import Credential, SecretBox, Statement
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.kv import Store

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
READ = (Statement("allow", ("fs:Read*",), "*"),)
# Characters before the slash in the alphabet: a careless key order would mix names up.
NAMES = st.text(alphabet="ab+,-.=@_", min_size=1, max_size=4)


def directory(kv: Store, changed: Callable[[], None] = lambda: None) -> Directory:
    return Directory(kv, SecretBox("signing"), lambda: NOW, changed)


def filled(kv: Store) -> Directory:
    made = directory(kv)
    for letter in "ab":
        made.users.create(f"user-{letter}")
        made.groups.create(f"group-{letter}")
        made.policies.create(f"policy-{letter}", READ)
    for left in "ab":
        made.credentials.add(f"user-{left}", f"KEY-{left}", "secret")
        for right in "ab":
            made.groups.add_member(f"group-{left}", f"user-{right}")
            made.policies.attach_to_group(f"policy-{left}", f"group-{right}")
            made.policies.attach_to_user(f"policy-{left}", f"user-{right}")
    return made


def keys(kv: Store) -> set[str]:
    return {entry.key.decode() for entry in kv.scan(model.PARTITION)}


def names[T](page: Page[T]) -> list[str]:
    return [each.access_key_id if isinstance(each, Credential) else each.name for each in page.results]  # type: ignore[attr-defined]
