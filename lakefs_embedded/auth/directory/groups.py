"""Groups and their members."""

from __future__ import annotations

from collections.abc import Iterator

from lakefs_embedded.auth import model
from lakefs_embedded.auth.directory.records import AuthRecords, Page, page_of
from lakefs_embedded.auth.directory.users import UserStore
from lakefs_embedded.auth.errors import GroupNotFoundError
from lakefs_embedded.auth.model import Clock, Group, User


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
