"""Choose the repositories for runs on many repositories."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from dredge.errors import ConfigError, DredgeError, NotFoundError
from dredge.icechunk.maintenance import STATE
from dredge.settings import Settings, check_settings, setting, split_words
from dredge.storage import StorageOptions, open_reader
from dredge.storage.location import place_of

log = logging.getLogger("dredge")

_EACH = "/*"
_ANY_BEGINNING = ("/", "*", "?", "[")
"""First characters of a glob or path that may match a URI."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyConfig(Settings):
    """The repositories to collect, and the folder of the summaries."""

    storages: str | None = setting(
        "Repositories",
        "URIs, separated by commas or spaces. A URI that ends in `/*`, such as `s3://lake/*`, means every repository"
        " directly in that folder. Empty: the repositories in the Variable `dredge_icechunk_schedules`.",
        default=None,
    )
    exclude: str | None = setting(
        "Excluded repositories",
        "URIs or globs of repositories to exclude. Empty: none.",
        default=None,
    )
    summary_root: str | None = setting(
        "Folder of summaries",
        "URI of the folder for the summary pages. Empty: the run root, or without one Dredge's folder in the first"
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
                    f"exclude has {word!r}, which can match no repository: use a URI, or a glob such as */{word}"
                )

    @property
    def wanted(self) -> list[str]:
        """URIs to collect; a URI may mean several repositories."""
        return split_words(self.storages)

    @property
    def unwanted(self) -> list[str]:
        """URIs and globs to leave out."""
        return split_words(self.exclude)


def choose_repositories(
    config: ManyConfig, named: Iterable[str], options: StorageOptions | None = None
) -> tuple[list[str], dict[str, str]]:
    """Choose the repositories to collect. Returns their URIs in order, without duplicates, and reasons by URI for
    requested repositories without a run. A repository on an unreachable store is chosen, and its run reports the error.
    Raises DredgeError: a folder of repositories cannot be listed."""
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
    # A URI with brackets does not match itself as a glob.
    return bool(globs & names) or any(fnmatchcase(name, glob) for name in names for glob in globs)


def _meant(uri: str, options: StorageOptions | None) -> Iterator[str]:
    if not uri.endswith(_EACH):
        yield uri
        return
    folder = uri.removesuffix(_EACH)
    for name in open_reader(folder, options).list_level("").folders:
        place = f"{folder}/{name.rstrip('/')}"
        if not _why_not(place, options):  # `/*` means repositories only
            yield place


def _why_not(uri: str, options: StorageOptions | None) -> str:
    # Not at module level: DAG files and `--help` import this module for its settings, and list nothing.
    from dredge.icechunk.repository import spec_version

    try:
        spec_version(open_reader(uri, options))
    except NotFoundError as error:
        return str(error)
    except DredgeError as error:
        log.warning("%s: it could not be checked whether a repository exists here: %s", uri, error)
    return ""


def summary_root(config: ManyConfig, run_root: str | None, repositories: Iterable[str]) -> str:
    """URI of the folder for summaries; "" without a repository."""
    first = next(iter(repositories), None)
    inside = "" if first is None else f"{first.rstrip('/')}/{STATE}"
    return (config.summary_root or run_root or inside).rstrip("/")
