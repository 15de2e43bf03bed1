"""Many repositories, one run each: which of them, and what became of their runs. Nothing here touches an object."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.icechunk.maintenance import STATE
from dredge.icechunk.repository import spec_version
from dredge.runs.report import Outcome, lost, reported
from dredge.settings import check_settings, read_settings, setting
from dredge.storage import StorageOptions, open_reader
from dredge.storage.location import place_of

log = logging.getLogger("dredge")

_BETWEEN = re.compile(r"[,\s]+")
_EACH = "/*"
_ANY_BEGINNING = ("/", "*", "?", "[")
"""Of a glob, or a path, that a URI may fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyConfig:
    """Which repositories are collected, and where the page about all of them goes."""

    storages: str | None = setting(
        "Repositories",
        "URIs, separated by commas or spaces. A URI with `/*` at its end, such as `s3://lake/*`, means every repository"
        " directly in that folder. Empty: the repositories in the Variable `dredge_icechunk_schedules`.",
        default=None,
    )
    exclude: str | None = setting(
        "Excluded repositories",
        "URIs or globs of repositories that are not collected. Empty: none.",
        default=None,
    )
    summary_root: str | None = setting(
        "Folder of summaries",
        "URI of the folder for the pages about all runs. Empty: the run root, or otherwise Dredge's folder in the first"
        " repository.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        for uri in (*self.wanted, *([] if self.summary_root is None else [self.summary_root])):
            if "://" not in uri:
                raise ConfigError(f"{uri!r} is not a URI such as s3://bucket/folder")
        for word in self.unwanted:
            if "://" not in word and not word.startswith(_ANY_BEGINNING):
                raise ConfigError(
                    f"exclude has {word!r}, which leaves no repository out: write its URI, or a glob such as */{word}"
                )

    @property
    def wanted(self) -> list[str]:
        """URIs of those to collect; some may stand for several."""
        return _words(self.storages)

    @property
    def unwanted(self) -> list[str]:
        """URIs and globs of those that are left out."""
        return _words(self.exclude)

    @classmethod
    def from_params(cls, params: Mapping[str, Any]) -> ManyConfig:
        """From what a user gave, as values or as rendered text.

        Raises:
            ConfigError: an unknown name, or a value that does not fit.
        """
        return cls(**read_settings(cls, params))


def _words(text: str | None) -> list[str]:
    return [word for word in _BETWEEN.split(text or "") if word]


def choose_repositories(
    config: ManyConfig, named: Iterable[str], options: StorageOptions | None = None
) -> tuple[list[str], dict[str, str]]:
    """Choose the repositories to collect.

    One whose store does not answer is collected like any other: its run says what is wrong with it.

    Args:
        config: what the user asks for.
        named: URIs of the repositories that have settings of their own; they are meant when nothing else is.
        options: how stores are reached; None reads the environment.

    Returns:
        URIs in order, each place once however it is spelled; and why others that were asked for are left out, by URI.

    Raises:
        DredgeError: a folder whose repositories are meant cannot be listed.
    """
    known = options or StorageOptions.from_env()
    asked = config.wanted or list(named)
    found: dict[str, str] = {}
    for word in asked:
        for uri in _meant(word.rstrip("/"), options):
            found.setdefault(place_of(uri, known), uri)
    unwanted = {*config.unwanted, *(place_of(word, known) for word in config.unwanted)}
    chosen = [uri for place, uri in found.items() if not _is_among(unwanted, {uri, place})]
    missing = {uri: why for uri in chosen if (why := _why_not(uri, options))}
    return sorted(uri for uri in chosen if uri not in missing), missing


def _is_among(globs: set[str], names: set[str]) -> bool:
    """A name with brackets is no glob that matches itself."""
    return bool(globs & names) or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _meant(uri: str, options: StorageOptions | None) -> Iterator[str]:
    if not uri.endswith(_EACH):
        yield uri
        return
    folder = uri.removesuffix(_EACH)
    for name in open_reader(folder, options).list_level("").folders:
        place = f"{folder}/{name.rstrip('/')}"
        if not _why_not(place, options):  # what is no repository there was not asked for
            yield place


def _why_not(uri: str, options: StorageOptions | None) -> str:
    try:
        spec_version(open_reader(uri, options))
    except NotFoundError as error:
        return str(error)
    except DredgeError as error:
        log.warning("%s: whether there is a repository cannot be told: %s", uri, error)
    return ""


def summary_root(config: ManyConfig, run_root: str | None, repositories: Iterable[str]) -> str:
    """URI of the folder for summaries; "" when there is no repository to put it into.

    Args:
        config: what the user asks for.
        run_root: where the runs put their folders; None is a place in each repository.
        repositories: URIs.
    """
    first = next(iter(repositories), None)
    inside = "" if first is None else f"{first.rstrip('/')}/{STATE}"
    return (config.summary_root or run_root or inside).rstrip("/")


def outcome_of(
    repository: str, run_uri: str, why: str = "", options: StorageOptions | None = None
) -> Outcome:
    """Tell what became of a repository's run, by its report.

    Args:
        repository: its URI.
        run_uri: folder of the run; "" when it came to no plan.
        why: what is known to have gone wrong; for a run without a report.
        options: how stores are reached; None reads the environment.
    """
    if not run_uri:
        return lost(repository, why)
    # Not at module level: the form of its settings is read wherever DAG files are.
    from dredge.icechunk.collection.run import Run
    from dredge.icechunk.collection.steps import read_report

    try:
        report = read_report(Run.open(run_uri, options))
    except DredgeError as error:
        return lost(repository, why or str(error), run_uri)
    found, deleted = ((report[what]["objects"], report[what]["bytes"]) for what in ("candidates", "deleted"))
    return reported(repository, run_uri, report, found, deleted)
