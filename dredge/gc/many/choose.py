"""The repositories of a server that are collected, and why the others are left out."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dredge.errors import DredgeError
from dredge.gc.many.config import ManyConfig
from dredge.gc.many.others import other_collector
from dredge.gc.plan import STATE
from dredge.lakefs import LakeFS, Repository
from dredge.storage import StorageOptions, open_reader
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen.

    Attributes:
        repositories: names of those to collect, in order.
        left_out: why, by name, of those that were asked for and are not collected.
        summary_root: URI of the folder for summaries; "" when there is no repository to put it into.
    """

    repositories: list[str]
    left_out: dict[str, str]
    summary_root: str


def choose_repositories(
    config: ManyConfig,
    client: LakeFS,
    options: StorageOptions | None = None,
    run_root: str | None = None,
) -> Chosen:
    """Choose the repositories to collect: those asked for on which no other collector works.

    A repository whose store does not answer is collected like any other: its run says what is wrong with it.

    Args:
        config: what the user asks for.
        client: the lakeFS server.
        options: how stores are reached; None reads the environment.
        run_root: where the runs put their folders; None is a place in each repository's namespace.
    """
    known = sorted(client.repositories(), key=lambda found: found.name)
    asked = [found for found in known if _matches(found.name, config.wanted)]
    asked = [found for found in asked if not _matches(found.name, config.unwanted)]
    reasons = dict(_unknown(config.wanted, known))
    repositories = []
    for found, why in zip(
        asked, ordered_map(lambda item: _why_not(item, options), asked, _AT_ONCE), strict=True
    ):
        if why:
            log.warning("%s is left out: %s", found.name, why)
            reasons[found.name] = why
        else:
            repositories.append(found.name)
    return Chosen(repositories, reasons, _summary_root(config, run_root, asked))


def _matches(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _unknown(wanted: Sequence[str], known: Sequence[Repository]) -> dict[str, str]:
    names = {found.name for found in known}
    plain = (word for word in wanted if not set(word) & set("*?["))
    return {word: "the server has no such repository" for word in plain if word not in names}


def _why_not(repository: Repository, options: StorageOptions | None) -> str:
    if repository.read_only:
        return "it is read-only, so lakeFS does not prepare it for collection"
    try:
        return other_collector(open_reader(repository.namespace, options))
    except DredgeError as error:
        log.warning("%s: whether another collector works on it cannot be told: %s", repository.name, error)
        return ""


def _summary_root(config: ManyConfig, run_root: str | None, asked: Sequence[Repository]) -> str:
    if config.summary_root or run_root:
        return (config.summary_root or run_root or "").rstrip("/")
    return f"{asked[0].namespace.rstrip('/')}/{STATE}" if asked else ""
