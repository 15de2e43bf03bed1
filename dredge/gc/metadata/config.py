"""Settings of a collection of metadata."""

from dataclasses import dataclass
from datetime import timedelta

from dredge.approve.settings import (
    GRACE_HOURS_FINAL,
    choose_grace,
    grace_hours_setting,
    unsafe_grace_setting,
)
from dredge.gc.config import KEEP_UNNAMED_DAYS, MIN_AGE_HOURS
from dredge.settings import DAYS_MAX, HOURS_MAX, Settings, check_settings, setting

REPORT, DELETE = "report", "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataConfig(Settings):
    """Settings of a collection of metadata."""

    repository: str = setting("Repository", "Name of the repository in lakeFS.")
    metadata: str = setting(
        "Metadata",
        "`report`: find range and metarange files without a commit, and put them on the pending list."
        " `delete`: delete files that an earlier run found and that have waited for the grace since. This"
        " needs a bucket with versions and lakeFS's key-value store: the run then deletes only the checked"
        " version, and a commit that writes the same file meanwhile keeps its own version. If a later commit"
        " refers to a deleted file without writing it (by its id, or through a server that checks before it"
        " writes), readers of that commit fail **until the next such run restores the copy**.",
        default=REPORT,
        choices=(REPORT, DELETE),
    )
    dry_run: bool = setting("Dry run", "Report the files, **delete nothing**.", default=True)
    min_age_hours: float = setting(
        "Minimum age in hours",
        "Younger files are kept: a commit may be about to refer to them. At least 25.",
        default=MIN_AGE_HOURS,
        minimum=MIN_AGE_HOURS,
        maximum=HOURS_MAX,
        because="commits are assumed to take less than that",
    )
    grace_hours: float | None = grace_hours_setting(" Empty where lakeFS keeps no id of the last mark: 72.")
    unsafe_grace_seconds: float | None = unsafe_grace_setting()
    keep_unnamed_days: float = setting(
        "Days that unreferenced metaranges are kept",
        "A metarange file without a known commit counts as an active commit in runs of `lakefs_gc` for this"
        " long after it was written, and longer if no mark has completed since. It is kept for as long, with"
        " its ranges. Not less than in those runs.",
        default=KEEP_UNNAMED_DAYS,
        minimum=0,
        maximum=DAYS_MAX,
    )
    keep_copies_days: float = setting(
        "Days that copies are kept",
        "Before a file is deleted, it is copied below the run's folder. Each later run restores the copies"
        " that a commit refers to by then. Runs with `metadata` = `delete` permanently delete older copies"
        " without a commit.",
        default=90.0,
        minimum=7,
        maximum=DAYS_MAX,
        because="a file that a later commit refers to is missing until it is restored",
    )

    def __post_init__(self) -> None:
        check_settings(self, without=() if self.unsafe_grace_seconds is None else ("grace_hours",))

    def grace(self, keeps_id: bool) -> timedelta:
        """Return the wait of a file without a commit; deletions can be undone by copies. It is longer if the server
        keeps no id."""
        least = 0 if keeps_id else GRACE_HOURS_FINAL
        return choose_grace(self.grace_hours, self.unsafe_grace_seconds, can_undo=True, least_hours=least)

    @property
    def min_age(self) -> timedelta:
        """Minimum age of deleted files."""
        return timedelta(hours=self.min_age_hours)

    @property
    def waits(self) -> bool:
        """Whether files wait for another run."""
        return self.unsafe_grace_seconds != 0
