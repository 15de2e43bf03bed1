"""Collections of all repositories of a server, one run each, in this process: each with its lease, plan and report.

A repository of another collector is left out. Files in its namespace show another collector:

    _lakefs/retention/gc/unified/<run>/           a run; a run of Dredge has a plan.json, others have none
    _lakefs/retention/gc/uncommitted/<run>/       staging, prepared for a collector
    _lakefs/retention/gc/commits/run_id=<run>/    active commits, prepared for a collector
    _lakefs/retention/gc/dredge/lease.json        the lease, taken first by every run of Dredge

lakeFS prepares these files for any caller, so the second and third do not name the collector. But a run of Dredge asks
only while it holds the lease: files newer than the last use of the lease belong to another collector.

Source: docs/lakefs-behaviour.md, "What a collector reads"; `pkg/graveler/retention/garbage_collection_manager.go`
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fnmatch import fnmatchcase

from msgspec import Struct

from dredge.errors import ConfigError, DredgeError, FormatError
from dredge.gc.run import PLAN, RUNS, STATE
from dredge.lakefs import LakeFSClient, Repository
from dredge.runs.lease import LEASE, read_lease_end
from dredge.settings import Settings, check_settings, setting, split_words
from dredge.storage import ObjectReader, StorageOptions, open_reader
from dredge.storage.parallel import ordered_map
from dredge.xid import descending_time

log = logging.getLogger("dredge")

_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyConfig(Settings):
    """The repositories to collect, and the folder of the summaries."""

    repositories: str = setting(
        "Repositories",
        "Names, or globs such as `team-*`, separated by commas or spaces. Each repository has its own run.",
        default="*",
    )
    exclude: str | None = setting(
        "Excluded repositories",
        "Names or globs of repositories that are not collected. Empty: none.",
        default=None,
    )
    summary_root: str | None = setting(
        "Folder of summaries",
        "URI of the folder for the pages about all runs. Empty: the run root, or otherwise Dredge's folder"
        " in the namespace of the first repository by name.",
        default=None,
    )

    def __post_init__(self) -> None:
        check_settings(self)
        if self.summary_root is not None and "://" not in self.summary_root:
            raise ConfigError(f"summary_root {self.summary_root!r} is not a URI such as s3://bucket/folder")


class Chosen(Struct, frozen=True):
    """The chosen repositories."""

    repositories: list[str]  # names, in order
    left_out: dict[str, str]  # the reason by name, for requested repositories without a run
    summary_root: str  # URI of the folder for summaries; "" without a repository


def choose_repositories(
    config: ManyConfig,
    client: LakeFSClient,
    options: StorageOptions | None = None,
    run_root: str | None = None,
) -> Chosen:
    """Choose the repositories to collect: the requested ones without another collector.

    A repository on an unreachable store is collected too: its run reports the error.
    """
    known = sorted(client.repositories(), key=lambda found: found.name)
    wanted, unwanted = split_words(config.repositories), split_words(config.exclude)
    asked = [found for found in known if _matches(found.name, wanted) and not _matches(found.name, unwanted)]
    reasons = dict(_unknown(wanted, known))
    repositories = []
    for found, why in zip(
        asked, ordered_map(lambda item: _why_not(item, options), asked, _AT_ONCE), strict=True
    ):
        if why:
            log.warning("%s is left out: %s", found.name, why)
            reasons[found.name] = why
        else:
            repositories.append(found.name)
    own_root = f"{asked[0].namespace.rstrip('/')}/{STATE}" if asked else ""
    root = config.summary_root or run_root or own_root
    return Chosen(repositories, reasons, root.rstrip("/"))


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
        log.warning("%s: the check for another collector failed: %s", repository.name, error)
        return ""


_LOOK_BACK = 20
# The clock of servers, in the ids of runs, and the store's clock may differ by this much unnoticed (`Safety`).
_CLOCKS = timedelta(minutes=5)


def other_collector(reader: ObjectReader) -> str:
    """Why a repository seems to belong to another collector; "" when it does not."""
    ours = read_lease_end(reader, f"{STATE}/{LEASE}")
    for run_id, when in _of_others(reader):
        if ours is None or when > ours + _CLOCKS:
            before = "never collected it" if ours is None else f"last collected it {ours:%Y-%m-%d %H:%M} UTC"
            return (
                f"another collector works on it: its run {run_id} wrote files at {when:%Y-%m-%d %H:%M} UTC, and this"
                f" collector {before}. Stop the other collector, then run `lakefs_gc` on this repository once"
            )
    return ""


def _of_others(reader: ObjectReader) -> Iterator[tuple[str, datetime]]:
    for folder, run_id, began in _newest(reader, f"{RUNS}/"):
        objects = reader.list_level(folder).objects
        if f"{folder}{PLAN}" not in {info.key for info in objects}:
            # The id has the start of a run; its files are written at its end.
            yield run_id, max([began, *(info.last_modified for info in objects)])
    from dredge.lakefs.files.records import COMMITS, UNCOMMITTED

    for place in (UNCOMMITTED, COMMITS):
        yield from ((run_id, began) for _, run_id, began in _newest(reader, f"{place}/"))


def _newest(reader: ObjectReader, place: str) -> list[tuple[str, str, datetime]]:
    """Folder, id and time of the newest runs below a folder. Ids of newer runs sort first."""
    found = []
    for folder in sorted(reader.list_level(place).folders):
        run_id = folder.rstrip("/").rpartition("/")[2].removeprefix("run_id=")
        try:
            found.append((folder, run_id, descending_time(run_id)))
        except FormatError:
            continue
        if len(found) == _LOOK_BACK:
            break
    return found
