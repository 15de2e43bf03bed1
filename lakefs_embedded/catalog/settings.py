"""The settings of a catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal, get_args

from dredge.errors import ConfigError
from lakefs_embedded.refs.repositories import LifeCycle

# Faults of real servers that tests switch on. All are off by default, and stay off in production.
CATALOG_DEFECTS = frozenset(
    {
        "rows_lost_on_branch_delete",  # a branch deleted during prepare makes its page lose rows
        "empty_last_page",  # the last page of a prepare run has no rows, hence no location
        "repeated_token",  # prepare returns the token it was given, for ever
        "page_missing",  # prepare returns a location that lacks a file
        "active_walk_early_stop",  # the walk over commits stops before marking a commit
        "cherry_pick_cache",  # a picked commit is not found by its full id; a branch made from it has no head
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Behaviour of a catalog; the defaults are those of a real server.

    Args:
        profile: `lakefs` for today's server, `design` for the stricter rules of the first design.
        life_cycle: creation and deletion of repositories: `lakefs` as today's server, `step-1` or `step-2` of the
            design (refs/life_cycle.py).
        signing_key: secret of the signatures on handed-out addresses.
        link_expiry: maximum age of a handed-out address to link.
        copy_expiry: life of the record of a shared copy (profile `design`); a prepare run may take half as long.
        slice_names_max: names in one slice below `data/`.
        slice_age_max: maximum age of an open slice.
        prepare_file_bytes_max: flushed parquet bytes at the end of a prepare page.
        prepare_interval: maximum time of a prepare page.
        prepare_flush_rows: rows between two flushes of a prepare page.
        prepare_branch_time: minimum time of a prepare page on a branch, for benchmarks. A real server needs about
            11 ms (measured with 500 branches of 150 staged entries).
        range_bytes_min: a smaller range is not closed (estimated size).
        range_bytes_max: a range is closed at this size (estimated size).
        range_raggedness: one key in this many closes a range.
        branch_cache: maximum age of a cached branch record for the first read of a request.
        write_tries: tries of a write before it fails with 429.
        commit_tries: tries of the last step of a commit before it fails with 429.
        task_expiry: life of the status of an asynchronous task.
        import_from_repositories: allow imports from another repository's namespace, as a real server does. A
            collection of the other repository must protect this one, or it deletes the imported objects.
        presign: sign URLs to read and write objects, if the store can.
        background: run tasks and drop tokens in threads; False does so before a call returns.
        defects: names from CATALOG_DEFECTS to switch on; others are ignored.
    """

    profile: Literal["lakefs", "design"] = "lakefs"
    life_cycle: LifeCycle = "lakefs"
    signing_key: str = field(default="local-signing-secret", repr=False)
    link_expiry: timedelta = timedelta(hours=24)
    copy_expiry: timedelta = timedelta(hours=48)
    slice_names_max: int = 50_000
    slice_age_max: timedelta = timedelta(hours=1)
    prepare_file_bytes_max: int = 20 << 20
    prepare_interval: timedelta = timedelta(minutes=1)
    prepare_flush_rows: int = 100_000
    prepare_branch_time: timedelta = timedelta(0)
    range_bytes_min: int = 0
    range_bytes_max: int = 20 << 20
    range_raggedness: int = 50_000
    branch_cache: timedelta = timedelta(milliseconds=500)
    write_tries: int = 3
    commit_tries: int = 10
    task_expiry: timedelta = timedelta(hours=24)
    import_from_repositories: bool = False
    presign: bool = False
    background: bool = True
    defects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.profile not in ("lakefs", "design"):
            raise ConfigError(f"profile {self.profile!r} is unknown; use 'lakefs' or 'design'")
        if self.life_cycle not in get_args(LifeCycle):
            raise ConfigError(f"life_cycle {self.life_cycle!r} is unknown; use one of {get_args(LifeCycle)}")
        for name in ("slice_names_max", "prepare_flush_rows", "write_tries", "commit_tries"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1")
        if self.prepare_branch_time < timedelta(0):
            raise ConfigError("prepare_branch_time must not be negative")

    def defect(self, name: str) -> bool:
        """Whether a defect is switched on."""
        return name in self.defects
