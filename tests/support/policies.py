"""Repositories with a history, and runs under retention policies."""

from typing import Any

from dredge.gc.retention import RetentionPolicy, read_policy
from tests.support.gc import World, summary_of


def history(
    world: World, count: int = 5, branch: str = "main", days: float = 3, path: str = "a", first: int = 0
) -> list[str]:
    """Commits a few days apart, each overwriting the same path; returns the addresses, oldest first."""
    addresses = []
    for number in range(first, first + count):
        addresses.append(world.upload(path, f"{branch} {path} {number}".encode(), branch))
        world.lake.commit(f"{branch} {number}", branch)
        world.age(days=days)
    return addresses


def policy(*rules: str) -> RetentionPolicy:
    return read_policy("version: 1\nkeep:\n" + "".join(f"  - {{{rule}}}\n" for rule in rules), "policy.yaml")


def kept(world: World, **settings: Any) -> tuple[set[str], dict[str, dict[str, Any]]]:
    """Run; returns the remaining addresses, and the summary's figures of each kept set."""
    context = world.plan(**settings)
    world.run(context)
    found = summary_of(context, "list_committed").details["kept"]
    return world.data(), {item["name"]: item for item in found}


def many_paths(world: World, count: int = 4) -> dict[str, list[str]]:
    """Commits overwriting several paths each; returns addresses by path, oldest first."""
    addresses: dict[str, list[str]] = {path: [] for path in ("audit/a", "audit/b/c", "data.md", "x")}
    for number in range(count):
        for path, found in addresses.items():
            found.append(world.upload(path, f"{path} {number}".encode()))
        world.lake.commit(str(number))
        world.age(days=3)
    return addresses


def revive(world: World, branch: str, commit_id: str) -> None:
    world.lake.catalog.branches.create_branch(world.lake.repository, branch, commit_id)
