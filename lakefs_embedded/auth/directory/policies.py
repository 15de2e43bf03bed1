"""Policies and their attachments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory.groups import GroupStore
from lakefs_embedded.auth.directory.records import AuthRecords, Page, page_of
from lakefs_embedded.auth.directory.users import UserStore
from lakefs_embedded.auth.errors import PolicyNotFoundError
from lakefs_embedded.auth.evaluation import check_statement
from lakefs_embedded.auth.model import Clock, Policy, Statement


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
