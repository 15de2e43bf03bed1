"""Users, groups, policies and credentials in the key-value store.

What binds two of them (a membership, a policy of a user) is a key of its own that leads to one of them. On
removal these keys go first and the entity last: a crash in between leaves an entity with fewer bonds, never
a bond without its entity, which would come back to life with the next entity of that name. Whoever binds
looks again afterwards whether both are still there, and whoever removes looks again for new bonds, so two at
once leave none either.

Source: design "lakeFS on KV" (data modeling: IAM); lakeFS pkg/auth, contrib/auth/acl/service.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from dredge.auth import model
from dredge.auth.errors import (
    AlreadyExistsError,
    CredentialsNotFoundError,
    GroupNotFoundError,
    PolicyNotFoundError,
    UserNotFoundError,
)
from dredge.auth.model import PARTITION, Credential, Group, Policy, User
from dredge.auth.policies import check_statement
from dredge.auth.secrets import SecretBox
from dredge.kv import KeyNotFoundError, PredicateFailedError, Store

type Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Page[T]:
    """Part of a listing in order of names.

    Attributes:
        results: at most as many as asked for.
        next_offset: the last name, to go on after it; "" when this is the end.
    """

    results: list[T]
    next_offset: str

    @property
    def has_more(self) -> bool:
        """Whether there is another page."""
        return bool(self.next_offset)


class Directory:
    """The stored entities, uncached.

    Args:
        kv: the store.
        box: seals secrets.
        clock: aware UTC, stored in whole microseconds.
        on_change: called after every change.
    """

    def __init__(
        self, kv: Store, box: SecretBox, clock: Clock, on_change: Callable[[], None] = lambda: None
    ) -> None:
        self._kv = kv
        self._box = box
        self._clock = clock
        self._changed = on_change

    # --- users ---------------------------------------------------------------------------------------------

    def create_user(self, name: str, friendly_name: str = "", email: str = "") -> User:
        """Add a user; raises AlreadyExistsError, InvalidNameError."""
        user = User(model.check_name(name, "User"), self._clock(), friendly_name, email)
        self._create(model.user_key(name), user.encode())
        return user

    def get_user(self, name: str) -> User:
        """Read a user; raises UserNotFoundError."""
        return User.decode(self._read(model.user_key(name), UserNotFoundError))

    def list_users(self, *, prefix: str = "", after: str = "", amount: int) -> Page[User]:
        """Users by name."""
        return _page(self._named(b"users/", prefix, after, User.decode), amount)

    def delete_user(self, name: str) -> None:
        """Remove a user with its credentials, policies and memberships; raises UserNotFoundError.

        The credentials go first: from then on nobody gets in with them.
        """
        self.get_user(name)
        own = (model.credential_key(name), model.user_policy_key(name))

        def bonds() -> Iterator[bytes]:
            for prefix in own:
                yield from self._keys(prefix)
            yield from (key for key in self._keys(b"gUsers/") if key.endswith(f"/users/{name}".encode()))

        self._remove(model.user_key(name), bonds)

    # --- groups --------------------------------------------------------------------------------------------

    def create_group(self, name: str, description: str = "") -> Group:
        """Add a group; raises AlreadyExistsError, InvalidNameError."""
        group = Group(model.check_name(name, "Group"), self._clock(), description)
        self._create(model.group_key(name), group.encode())
        return group

    def get_group(self, name: str) -> Group:
        """Read a group; raises GroupNotFoundError."""
        return Group.decode(self._read(model.group_key(name), GroupNotFoundError))

    def list_groups(self, *, prefix: str = "", after: str = "", amount: int) -> Page[Group]:
        """Groups by name."""
        return _page(self._named(b"groups/", prefix, after, Group.decode), amount)

    def delete_group(self, name: str) -> None:
        """Remove a group with its memberships and policies; raises GroupNotFoundError."""
        self.get_group(name)

        def bonds() -> Iterator[bytes]:
            yield from self._keys(model.group_policy_key(name))
            yield from self._keys(model.membership_key(name))

        self._remove(model.group_key(name), bonds)

    def add_member(self, group: str, user: str) -> None:
        """Put a user into a group; raises when either is missing, or it is a member already."""

        def both() -> None:
            self.get_user(user)
            self.get_group(group)

        self._bind(model.membership_key(group, user), model.user_key(user), both)

    def remove_member(self, group: str, user: str) -> None:
        """Take a user out of a group; raises when either is missing; no member is no error."""
        self.get_user(user)
        self.get_group(group)
        self._delete(model.membership_key(group, user))

    def list_members(self, group: str, *, prefix: str = "", after: str = "", amount: int) -> Page[User]:
        """Users of a group by name; raises GroupNotFoundError."""
        self.get_group(group)
        bonds = self._bound(model.membership_key(group), prefix, after)
        return _page(self._existing(bonds, model.user_key, User.decode), amount)

    def list_groups_of(self, user: str, *, prefix: str = "", after: str = "", amount: int) -> Page[Group]:
        """Groups of a user by name; raises UserNotFoundError."""
        self.get_user(user)
        groups = self._named(b"groups/", prefix, after, Group.decode)
        return _page(
            (pair for pair in groups if self._has(model.membership_key(pair[0], user))),
            amount,
        )

    # --- policies ------------------------------------------------------------------------------------------

    def create_policy(self, name: str, statements: tuple[model.Statement, ...]) -> Policy:
        """Add a policy; raises AlreadyExistsError, InvalidNameError, InvalidPolicyError."""
        policy = self._checked(name, statements)
        self._create(model.policy_key(name), policy.encode())
        return policy

    def update_policy(self, name: str, statements: tuple[model.Statement, ...]) -> Policy:
        """Replace a policy's statements; raises PolicyNotFoundError, InvalidPolicyError."""
        policy = self._checked(name, statements)
        key = model.policy_key(name)
        while True:
            old = self._read(key, PolicyNotFoundError)
            try:
                self._kv.set_if(PARTITION, key, policy.encode(), old)
            except PredicateFailedError:
                continue  # another update, or a deletion, was first: look again
            self._changed()
            return policy

    def get_policy(self, name: str) -> Policy:
        """Read a policy; raises PolicyNotFoundError."""
        return Policy.decode(self._read(model.policy_key(name), PolicyNotFoundError))

    def list_policies(self, *, prefix: str = "", after: str = "", amount: int) -> Page[Policy]:
        """Policies by name."""
        return _page(self._named(b"policies/", prefix, after, Policy.decode), amount)

    def delete_policy(self, name: str) -> None:
        """Take a policy from whoever has it, then remove it; raises PolicyNotFoundError."""
        self.get_policy(name)
        ending = f"/policies/{name}".encode()

        def bonds() -> Iterator[bytes]:
            for prefix in (b"gPolicies/", b"uPolicies/"):
                yield from (key for key in self._keys(prefix) if key.endswith(ending))

        self._remove(model.policy_key(name), bonds)

    def attach_to_user(self, policy: str, user: str) -> None:
        """Give a user a policy; raises when either is missing, or it has it already."""

        def both() -> None:
            self.get_user(user)
            self.get_policy(policy)

        self._bind(model.user_policy_key(user, policy), model.policy_key(policy), both)

    def detach_from_user(self, policy: str, user: str) -> None:
        """Take a policy from a user; raises when either is missing; not having it is no error."""
        self.get_user(user)
        self.get_policy(policy)
        self._delete(model.user_policy_key(user, policy))

    def list_user_policies(
        self, user: str, *, prefix: str = "", after: str = "", amount: int
    ) -> Page[Policy]:
        """A user's own policies by name; raises UserNotFoundError."""
        self.get_user(user)
        bonds = self._bound(model.user_policy_key(user), prefix, after)
        return _page(self._existing(bonds, model.policy_key, Policy.decode), amount)

    def attach_to_group(self, policy: str, group: str) -> None:
        """Give a group a policy; raises when either is missing, or it has it already."""

        def both() -> None:
            self.get_group(group)
            self.get_policy(policy)

        self._bind(model.group_policy_key(group, policy), model.policy_key(policy), both)

    def detach_from_group(self, policy: str, group: str) -> None:
        """Take a policy from a group; raises when either is missing; not having it is no error."""
        self.get_group(group)
        self.get_policy(policy)
        self._delete(model.group_policy_key(group, policy))

    def list_group_policies(
        self, group: str, *, prefix: str = "", after: str = "", amount: int
    ) -> Page[Policy]:
        """A group's policies by name; raises GroupNotFoundError."""
        self.get_group(group)
        bonds = self._bound(model.group_policy_key(group), prefix, after)
        return _page(self._existing(bonds, model.policy_key, Policy.decode), amount)

    def list_effective_policies(
        self, user: str, *, prefix: str = "", after: str = "", amount: int
    ) -> Page[Policy]:
        """Policies of a user and of its groups by name, each once; raises UserNotFoundError."""
        wanted = (each for each in self.effective_policies(user) if each.name.startswith(prefix))
        return _page(((each.name, each) for each in wanted if each.name > after), amount)

    def effective_policies(self, user: str) -> list[Policy]:
        """Policies of a user and of its groups by name, each once; raises UserNotFoundError."""
        self.get_user(user)
        names = set(self._bound(model.user_policy_key(user)))
        for group, _ in self._named(b"groups/", "", "", Group.decode):
            if self._has(model.membership_key(group, user)):
                names.update(self._bound(model.group_policy_key(group)))
        found = self._existing(iter(sorted(names)), model.policy_key, Policy.decode)
        return [policy for _, policy in found]

    # --- credentials ---------------------------------------------------------------------------------------

    def add_credential(self, user: str, access_key_id: str, secret: str) -> Credential:
        """Give a user a key pair; raises UserNotFoundError, AlreadyExistsError when anybody has the id."""
        model.check_key_id(access_key_id)
        self.get_user(user)
        if self._owner_of(access_key_id) is not None:
            raise AlreadyExistsError
        made = Credential(user, access_key_id, secret, self._clock())
        key = model.credential_key(user, access_key_id)
        self._create(key, made.encode(self._box.seal(secret, key)))
        self._look_again(key, lambda: self.get_user(user))
        return made

    def get_credential(self, user: str, access_key_id: str) -> Credential:
        """Read a user's credential, without its secret; raises CredentialsNotFoundError."""
        self.get_user(user)
        key = model.credential_key(user, access_key_id)
        return Credential.decode(self._read(key, CredentialsNotFoundError))[0]

    def list_credentials(
        self, user: str, *, prefix: str = "", after: str = "", amount: int
    ) -> Page[Credential]:
        """A user's credentials by key id, without secrets; raises UserNotFoundError."""
        self.get_user(user)
        own = self._named(
            model.credential_key(user), prefix, after, lambda value: Credential.decode(value)[0]
        )
        return _page(own, amount)

    def delete_credential(self, user: str, access_key_id: str) -> None:
        """Remove a user's credential; raises UserNotFoundError, CredentialsNotFoundError."""
        self.get_credential(user, access_key_id)
        self._delete(model.credential_key(user, access_key_id))

    def find_credential(self, access_key_id: str, probably: str | None = None) -> Credential:
        """Find a credential with its secret, whosever it is.

        Args:
            access_key_id: of the key pair.
            probably: the user that had it before; saves going through all credentials.

        Raises:
            CredentialsNotFoundError: no such key id, or its user is gone.
            FormatError: the secret does not open.
        """
        user = probably
        if user is None or not self._has(model.credential_key(user, access_key_id)):
            user = self._owner_of(access_key_id)
        if user is None or not self._has(model.user_key(user)):
            raise CredentialsNotFoundError
        key = model.credential_key(user, access_key_id)
        found, sealed = Credential.decode(self._read(key, CredentialsNotFoundError))
        return Credential(user, access_key_id, self._box.open(sealed, key), found.issued)

    def _owner_of(self, access_key_id: str) -> str | None:
        ending = f"/credentials/{access_key_id}".encode()
        for key in self._keys(b"uCredentials/"):
            if key.endswith(ending):
                return key.split(b"/")[1].decode()
        return None

    # --- the store -----------------------------------------------------------------------------------------

    def ensure(self, key: bytes, value: bytes) -> None:
        """Write a record unless there is one: for what a new server begins with."""
        try:
            self._kv.set_if(PARTITION, key, value, None)
        except PredicateFailedError:
            return
        self._changed()

    def _checked(self, name: str, statements: tuple[model.Statement, ...]) -> Policy:
        for each in statements:
            check_statement(each)
        return Policy(model.check_name(name, "Policy"), self._clock(), statements)

    def _create(self, key: bytes, value: bytes) -> None:
        try:
            self._kv.set_if(PARTITION, key, value, None)
        except PredicateFailedError:
            raise AlreadyExistsError from None
        self._changed()

    def _bind(self, key: bytes, primary: bytes, check: Callable[[], None]) -> None:
        check()
        self._create(key, model.encode_index(primary))
        self._look_again(key, check)

    def _look_again(self, key: bytes, check: Callable[[], object]) -> None:
        """Undo a bond whose entity was removed meanwhile."""
        try:
            check()
        except BaseException:
            self._delete(key)
            raise

    def _remove(self, key: bytes, bonds: Callable[[], Iterator[bytes]]) -> None:
        for bond in bonds():
            self._kv.delete(PARTITION, bond)
        self._kv.delete(PARTITION, key)
        for bond in bonds():  # made by somebody who saw the entity a moment ago
            self._kv.delete(PARTITION, bond)
        self._changed()

    def _delete(self, key: bytes) -> None:
        self._kv.delete(PARTITION, key)
        self._changed()

    def _read(self, key: bytes, missing: type[Exception]) -> bytes:
        try:
            return self._kv.get(PARTITION, key)
        except KeyNotFoundError:
            raise missing from None

    def _has(self, key: bytes) -> bool:
        try:
            self._kv.get(PARTITION, key)
        except KeyNotFoundError:
            return False
        return True

    def _keys(self, prefix: bytes) -> Iterator[bytes]:
        for entry in self._kv.scan(PARTITION, prefix):
            if not entry.key.startswith(prefix):
                return
            yield entry.key

    def _named[T](
        self, root: bytes, prefix: str, after: str, decode: Callable[[bytes], T]
    ) -> Iterator[tuple[str, T]]:
        """Entities whose names follow `root`, in order."""
        wanted = root + prefix.encode()
        start = max(wanted, root + after.encode() + b"\0") if after else wanted
        for entry in self._kv.scan(PARTITION, start):
            if not entry.key.startswith(wanted):
                return
            yield entry.key[len(root) :].decode(), decode(entry.value)

    def _bound(self, root: bytes, prefix: str = "", after: str = "") -> Iterator[str]:
        """Names that bonds below `root` lead to, in order."""
        return (name for name, _ in self._named(root, prefix, after, bytes))

    def _existing[T](
        self, names: Iterator[str], key: Callable[[str], bytes], decode: Callable[[bytes], T]
    ) -> Iterator[tuple[str, T]]:
        """What bonds lead to; a bond to nothing counts as none."""
        for name in names:
            try:
                value = self._kv.get(PARTITION, key(name))
            except KeyNotFoundError:
                continue
            yield name, decode(value)


def _page[T](found: Iterator[tuple[str, T]], amount: int) -> Page[T]:
    results: list[T] = []
    last = ""
    for name, value in found:
        if len(results) == amount:
            return Page(results, last)
        results.append(value)
        last = name
    return Page(results, "")
