"""The user directory: users, groups, policies and credentials in the key-value store, uncached.

    directory.users.create("jane")
    directory.groups.add_member("Viewers", "jane")
    directory.policies.attach_to_user("FSReadAll", "jane")
    directory.credentials.add("jane", access_key_id, secret)

`records.py` keeps the links between them consistent.

Source: design "lakeFS on KV" (data modeling: IAM); lakeFS pkg/auth, contrib/auth/acl/service.go.
"""

from collections.abc import Callable, Iterator, Sequence

from lakefs_embedded.auth import model
from lakefs_embedded.auth.model import Clock, Credential, Group, Policy, SecretBox, Statement, User
from lakefs_embedded.auth.permissions import check_statement
from lakefs_embedded.auth.records import AuthRecords, page_of
from lakefs_embedded.catalog.results import Page
from lakefs_embedded.errors import (
    AlreadyExistsError,
    CredentialsNotFoundError,
    GroupNotFoundError,
    PolicyNotFoundError,
    UserNotFoundError,
)
from lakefs_embedded.kv import Store


class UserStore:
    """Stored users."""

    def __init__(self, records: AuthRecords, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def create(self, name: str, friendly_name: str = "", email: str = "") -> User:
        """Create a user; raises AlreadyExistsError, InvalidNameError."""
        user = User(model.check_name(name, "User"), self._clock(), friendly_name, email)
        self._records.create(model.user_key(name), user.encode())
        return user

    def get(self, name: str) -> User:
        """Read a user; raises UserNotFoundError."""
        return User.decode(self._records.read(model.user_key(name), UserNotFoundError))

    def list(self, *, prefix: str = "", after: str = "", amount: int) -> Page[User]:
        """List users in name order."""
        return page_of(self._records.named(model.user_key(""), prefix, after, User.decode), amount)

    def delete(self, name: str) -> None:
        """Remove a user with its credentials (first), policies and memberships; raises UserNotFoundError."""
        self.get(name)
        membership = f"/users/{name}".encode()

        def links() -> Iterator[bytes]:
            yield from self._records.keys(model.credential_key(name))
            yield from self._records.keys(model.user_policy_key(name))
            yield from (key for key in self._records.keys(b"gUsers/") if key.endswith(membership))

        self._records.remove_entity(model.user_key(name), links)


class GroupStore:
    """Stored groups."""

    def __init__(self, records: AuthRecords, users: UserStore, clock: Clock) -> None:
        self._records = records
        self._users = users
        self._clock = clock

    def create(self, name: str, description: str = "") -> Group:
        """Create a group; raises AlreadyExistsError, InvalidNameError."""
        group = Group(model.check_name(name, "Group"), self._clock(), description)
        self._records.create(model.group_key(name), group.encode())
        return group

    def get(self, name: str) -> Group:
        """Read a group; raises GroupNotFoundError."""
        return Group.decode(self._records.read(model.group_key(name), GroupNotFoundError))

    def list(self, *, prefix: str = "", after: str = "", amount: int) -> Page[Group]:
        """List groups in name order."""
        return page_of(self._all(prefix, after), amount)

    def delete(self, name: str) -> None:
        """Remove a group with its memberships and policies; raises GroupNotFoundError."""
        self.get(name)

        def links() -> Iterator[bytes]:
            yield from self._records.keys(model.group_policy_key(name))
            yield from self._records.keys(model.membership_key(name))

        self._records.remove_entity(model.group_key(name), links)

    def add_member(self, group: str, user: str) -> None:
        """Add a user to a group; raises AlreadyExistsError, UserNotFoundError, GroupNotFoundError."""
        self._records.link(
            model.membership_key(group, user), model.user_key(user), lambda: self._check_both(group, user)
        )

    def remove_member(self, group: str, user: str) -> None:
        """Remove a user from a group, if it is a member; raises UserNotFoundError, GroupNotFoundError."""
        self._check_both(group, user)
        self._records.delete(model.membership_key(group, user))

    def list_members(self, group: str, *, prefix: str = "", after: str = "", amount: int) -> Page[User]:
        """List the members of a group in name order; raises GroupNotFoundError."""
        self.get(group)
        names = self._records.linked_names(model.membership_key(group), prefix, after)
        return page_of(self._records.linked(names, model.user_key, User.decode), amount)

    def list_of_user(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Group]:
        """List the groups of a user in name order; raises UserNotFoundError."""
        self._users.get(user)
        return page_of(self._of_user(user, prefix, after), amount)

    def names_of_user(self, user: str) -> Iterator[str]:
        """Yield the names of a user's groups, in order."""
        return (name for name, _ in self._of_user(user))

    def _of_user(self, user: str, prefix: str = "", after: str = "") -> Iterator[tuple[str, Group]]:
        for name, group in self._all(prefix, after):
            if self._records.exists(model.membership_key(name, user)):
                yield name, group

    def _all(self, prefix: str, after: str) -> Iterator[tuple[str, Group]]:
        return self._records.named(model.group_key(""), prefix, after, Group.decode)

    def _check_both(self, group: str, user: str) -> None:
        self._users.get(user)
        self.get(group)


class PolicyStore:
    """Stored policies."""

    def __init__(self, records: AuthRecords, users: UserStore, groups: GroupStore, clock: Clock) -> None:
        self._records = records
        self._users = users
        self._groups = groups
        self._clock = clock

    def create(self, name: str, statements: tuple[Statement, ...]) -> Policy:
        """Create a policy; raises AlreadyExistsError, InvalidNameError, InvalidPolicyError."""
        policy = self._checked(name, statements)
        self._records.create(model.policy_key(name), policy.encode())
        return policy

    def update(self, name: str, statements: tuple[Statement, ...]) -> Policy:
        """Replace a policy's statements; raises PolicyNotFoundError, InvalidPolicyError."""
        policy = self._checked(name, statements)
        self._records.replace(model.policy_key(name), policy.encode(), PolicyNotFoundError)
        return policy

    def get(self, name: str) -> Policy:
        """Read a policy; raises PolicyNotFoundError."""
        return Policy.decode(self._records.read(model.policy_key(name), PolicyNotFoundError))

    def list(self, *, prefix: str = "", after: str = "", amount: int) -> Page[Policy]:
        """List policies in name order."""
        return page_of(self._records.named(model.policy_key(""), prefix, after, Policy.decode), amount)

    def delete(self, name: str) -> None:
        """Detach a policy from all users and groups, then remove it; raises PolicyNotFoundError."""
        self.get(name)
        attached = f"/policies/{name}".encode()

        def links() -> Iterator[bytes]:
            for prefix in (b"gPolicies/", b"uPolicies/"):
                yield from (key for key in self._records.keys(prefix) if key.endswith(attached))

        self._records.remove_entity(model.policy_key(name), links)

    def attach_to_user(self, policy: str, user: str) -> None:
        """Attach a policy to a user; raises AlreadyExistsError, UserNotFoundError, PolicyNotFoundError."""
        self._records.link(
            model.user_policy_key(user, policy),
            model.policy_key(policy),
            lambda: (self._users.get(user), self.get(policy)),
        )

    def detach_from_user(self, policy: str, user: str) -> None:
        """Detach a policy from a user, if attached; raises UserNotFoundError, PolicyNotFoundError."""
        self._users.get(user)
        self.get(policy)
        self._records.delete(model.user_policy_key(user, policy))

    def list_of_user(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Policy]:
        """List the policies attached to a user itself, in name order; raises UserNotFoundError."""
        self._users.get(user)
        return self._attached(model.user_policy_key(user), prefix, after, amount)

    def attach_to_group(self, policy: str, group: str) -> None:
        """Attach a policy to a group; raises AlreadyExistsError, GroupNotFoundError, PolicyNotFoundError."""
        self._records.link(
            model.group_policy_key(group, policy),
            model.policy_key(policy),
            lambda: (self._groups.get(group), self.get(policy)),
        )

    def detach_from_group(self, policy: str, group: str) -> None:
        """Detach a policy from a group, if attached; raises GroupNotFoundError, PolicyNotFoundError."""
        self._groups.get(group)
        self.get(policy)
        self._records.delete(model.group_policy_key(group, policy))

    def list_of_group(self, group: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Policy]:
        """List the policies attached to a group, in name order; raises GroupNotFoundError."""
        self._groups.get(group)
        return self._attached(model.group_policy_key(group), prefix, after, amount)

    def effective(self, user: str) -> Sequence[Policy]:
        """Return the policies of a user and of its groups in name order, each once; raises UserNotFoundError."""
        self._users.get(user)
        names = set(self._records.linked_names(model.user_policy_key(user)))
        for group in self._groups.names_of_user(user):
            names.update(self._records.linked_names(model.group_policy_key(group)))
        found = self._records.linked(sorted(names), model.policy_key, Policy.decode)
        return [policy for _, policy in found]

    def list_effective(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Policy]:
        """List `effective` policies in pages; raises UserNotFoundError."""
        wanted = (each for each in self.effective(user) if each.name.startswith(prefix) and each.name > after)
        return page_of(((each.name, each) for each in wanted), amount)

    def _attached(self, root: bytes, prefix: str, after: str, amount: int) -> Page[Policy]:
        names = self._records.linked_names(root, prefix, after)
        return page_of(self._records.linked(names, model.policy_key, Policy.decode), amount)

    def _checked(self, name: str, statements: tuple[Statement, ...]) -> Policy:
        for each in statements:
            check_statement(each)
        return Policy(model.check_name(name, "Policy"), self._clock(), statements)


class CredentialStore:
    """Stored credentials."""

    def __init__(self, records: AuthRecords, users: UserStore, box: SecretBox, clock: Clock) -> None:
        self._records = records
        self._users = users
        self._box = box
        self._clock = clock

    def add(self, user: str, access_key_id: str, secret: str) -> Credential:
        """Give a user a key pair; raises AlreadyExistsError, InvalidNameError."""
        model.check_key_id(access_key_id)
        self._users.get(user)
        if self._owner_of(access_key_id) is not None:
            raise AlreadyExistsError
        credential = Credential(user, access_key_id, secret, self._clock())
        key = model.credential_key(user, access_key_id)
        self._records.create(key, credential.encode(self._box.seal(secret, key)))
        self._records.undo_unless(key, lambda: self._users.get(user))
        return credential

    def get(self, user: str, access_key_id: str) -> Credential:
        """Read a user's credential without its secret; raises UserNotFoundError, CredentialsNotFoundError."""
        self._users.get(user)
        key = model.credential_key(user, access_key_id)
        return Credential.decode(self._records.read(key, CredentialsNotFoundError))[0]

    def list(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Credential]:
        """List a user's credentials by key id, without secrets; raises UserNotFoundError."""
        self._users.get(user)
        root = model.credential_key(user)
        return page_of(
            self._records.named(root, prefix, after, lambda value: Credential.decode(value)[0]), amount
        )

    def delete(self, user: str, access_key_id: str) -> None:
        """Remove a user's credential; raises UserNotFoundError, CredentialsNotFoundError."""
        self.get(user, access_key_id)
        self._records.delete(model.credential_key(user, access_key_id))

    def find(self, access_key_id: str, expected_owner: str | None = None) -> Credential:
        """Find a credential by key id, with its secret; an `expected_owner` (an earlier one) can save a scan over all.

        Raises CredentialsNotFoundError, also when its user no longer exists, and FormatError for an unreadable secret.
        """
        user = expected_owner
        if user is None or not self._records.exists(model.credential_key(user, access_key_id)):
            user = self._owner_of(access_key_id)
        if user is None or not self._records.exists(model.user_key(user)):
            raise CredentialsNotFoundError
        key = model.credential_key(user, access_key_id)
        found, sealed = Credential.decode(self._records.read(key, CredentialsNotFoundError))
        return Credential(user, access_key_id, self._box.open(sealed, key), found.issued)

    def _owner_of(self, access_key_id: str) -> str | None:
        ending = f"/credentials/{access_key_id}".encode()
        for key in self._records.keys(b"uCredentials/"):
            if key.endswith(ending):
                return key.split(b"/")[1].decode()
        return None


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
