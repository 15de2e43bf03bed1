"""Settings of a collection, a restore and a purge, and the safety margins."""

from dataclasses import dataclass, field
from datetime import timedelta

from msgspec import Struct

from dredge.approve import settings as shared
from dredge.errors import ConfigError
from dredge.icechunk.expiration.config import Expiration
from dredge.runs.limits import Limits, bytes_limit, objects_limit, share_limit
from dredge.settings import DAYS_MAX, HOURS_MAX, SECONDS_MAX, Settings, check_finite, check_settings, setting
from dredge.undo import ways
from dredge.undo.ways import PurgeConfig, RestoreConfig

MIN_AGE_DEFAULT = 168.0  # hours
MIN_AGE_HOURS = 24.0
"""Writers store a chunk before its commit, so the minimum age must exceed the longest writing session."""

REASONS = ("unreachable", "overwritten")
_URI = "URI: `s3://bucket/prefix`, `gs://bucket/prefix` or a folder."


@dataclass(frozen=True, slots=True, kw_only=True)
class Safety:
    """Safety margins."""

    clock_skew_seconds_max: float = 300  # largest difference between this machine's clock and the store's
    mark_age_hours_max: float = shared.MARK_AGE_HOURS  # an older mark cannot be swept
    lease_seconds: float = 3600
    gate_every_seconds: float = 3  # while deleting, interval between a worker's checks of lease and refs
    watch_silence_seconds_max: float = 60  # while deleting, workers stop if the driver's last check is older
    # An older inventory is refused. S3 writes them daily or weekly, and may take two days.
    inventory_days_max: float = 14
    canary_chunks: int = 20

    def __post_init__(self) -> None:
        check_finite(self)


class Tuning(Struct, frozen=True, kw_only=True):
    """Sizes that affect only speed and memory."""

    snapshots_per_task: int = 5_000
    refs_per_task: int = 4_000_000  # chunk references that a task decodes
    ids_per_shard: int = 8 << 20  # live ids in a shard (8 bytes each in every worker that lists its range)
    # Expected keys of a listing task; folders are split by the first one or two characters of names.
    keys_per_task: int = 100_000
    candidate_rows: int = 100_000
    delete_keys: int = 32_000  # keys for the deleter in one call; each group gets a ledger part
    counted_layers_max: int = 24  # layers of counts that a run reads; more are united into one
    index_parts_max: int = 64  # small parts of the index that a run reads; more are united


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectConfig(shared.CollectionSettings, Settings):
    """Settings of a collection. A field made with `setting` is a Param of the DAG, a key of an operator's `config`, and
    a row in the docs."""

    uri: str = setting(
        "Repository", "URI: `s3://bucket/prefix`, `gs://bucket/prefix` or a folder.", name="storage"
    )
    mode: str = shared.mode_setting("lists every chunk", "the manifests that have become unreferenced")
    dry_run: bool = setting("Dry run", "Plan and report, **change and delete nothing**.", default=True)
    clean_every_days: float = shared.clean_every_setting(": chunks without a commit")
    min_age_hours: float = setting(
        "Minimum age in hours",
        "Younger objects are kept. Must exceed the longest writing session; at least 24.",
        default=MIN_AGE_DEFAULT,
        minimum=MIN_AGE_HOURS,
        maximum=HOURS_MAX,
        because="an open writer's chunks could be deleted. For tests without writers, there is"
        " unsafe_min_age_seconds",
    )
    unsafe_min_age_seconds: float | None = setting(
        "Unsafe minimum age in seconds",
        "Replaces the minimum age and **can delete chunks of open writers**. For tests. Empty: not used.",
        default=None,
        minimum=0,
        maximum=SECONDS_MAX,
    )
    grace_hours: float | None = shared.grace_hours_setting(
        " Spec 1: at least the minimum age, because sessions hold snapshots that were released."
    )
    unsafe_grace_seconds: float | None = shared.unsafe_grace_setting()
    keep_lost_days: float = setting(
        "Days that lost snapshots are kept",
        "Snapshots that became unreachable without an expiration are kept this long, because refs may have been"
        " restored from a backup; so are new snapshot files without a reference, because a commit may be in"
        " progress.",
        default=30.0,
        minimum=0,
        maximum=DAYS_MAX,
    )
    keep_old_refs: bool = setting(
        "Keep snapshots of old refs",
        "Spec 2: an upgrade leaves files in `refs/`. On: every object that they reach is kept. Off: those objects"
        " are garbage unless the repo info lists them.",
        default=True,
    )
    overwritten_min_age_hours: float | None = setting(
        "Age of old repo infos in hours",
        "Spec 2: also delete copies of the repo info older than this, unless the operations log needs them. Empty:"
        " keep all copies.",
        default=None,
        minimum=0,
        maximum=HOURS_MAX,
    )
    keep_chunks: bool = setting(
        "Keep all chunks",
        "Delete no chunk. For a repository with missing live chunks: a run without this setting refuses to delete.",
        default=False,
    )
    keep_transactions: bool = setting(
        "Keep all transaction logs",
        "Delete no transaction log. For a repository whose repo info lists missing logs.",
        default=False,
    )
    referring_repositories: str | None = setting(
        "Referring repositories",
        "URIs of Icechunk repositories, separated by commas, whose virtual chunks refer to objects of this one. The"
        " objects are kept: a run reads all manifests there, even unreachable ones. Empty: none.",
        default=None,
    )
    inventory: str | None = shared.inventory_setting("chunks")
    undo: str = shared.undo_setting("dredge icechunk")
    keep_runs_days: float | None = shared.keep_runs_setting(
        "unless later runs or a restore need them; so are superseded counts, notes and parts of the index. Empty: they"
        " are kept."
    )
    max_delete_objects: int | None = objects_limit()
    max_delete_bytes: int | None = bytes_limit()
    max_delete_percent: float | None = share_limit()
    approval: str = shared.approval_setting()
    approval_hours: float = shared.approval_hours_setting()
    approvers: str | None = shared.approvers_setting()
    run_root: str | None = setting(
        "Run root", "URI of the folder for run folders. Empty: inside the repository.", default=None
    )
    # A planned expiration: a dry run then reports the deletions of a collection after it.
    after: Expiration | None = None
    safety: Safety = field(default_factory=Safety)
    tuning: Tuning = field(default_factory=Tuning)

    def __post_init__(self) -> None:
        check_settings(self, without=self.replaced)
        if self.after is not None and not self.dry_run:
            raise ConfigError(
                "only a dry run can assume an expiration (after). Apply the expiration, then collect"
            )

    @property
    def kept_kinds(self) -> list[str]:
        """Kinds of objects without candidates."""
        kinds = {"chunks": self.keep_chunks, "transactions": self.keep_transactions}
        return [kind for kind, kept in kinds.items() if kept]

    @property
    def referring(self) -> tuple[str, ...]:
        """URIs of the referring repositories."""
        return tuple(uri.strip() for uri in (self.referring_repositories or "").split(",") if uri.strip())

    def grace(self, undo: str, spec_version: int) -> timedelta:
        """Minimum time between the run that finds garbage and the run that deletes it."""
        least = self.min_age_seconds / 3600 if spec_version == 1 else 0
        return shared.choose_grace(
            self.grace_hours, self.unsafe_grace_seconds, can_undo=undo != ways.OFF, least_hours=least
        )

    @property
    def limits(self) -> Limits:
        """Limits on the number and size of deletions."""
        return Limits(self.max_delete_objects, self.max_delete_bytes, self.max_delete_percent)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcechunkRestoreConfig(RestoreConfig):
    """Selection of deletions to restore, and the time for which restored objects are kept."""

    repository: str = setting("Repository", _URI, name="storage")
    prefix: str | None = setting(
        "Prefix", "Prefix of the objects' keys, such as `chunks/`. Empty: any.", default=None
    )
    reason: str | None = setting(
        "Reason", "Reason of the deletion. Empty: any.", default=None, choices=REASONS
    )
    expiration: bool = setting(
        "Expiration",
        "The run is an expiration: restore the repo info from before the expiration (spec 2). Refused if other"
        " operations followed.",
        default=False,
    )

    def __post_init__(self) -> None:
        if not self.expiration:
            RestoreConfig.__post_init__(self)
            return
        check_settings(self)
        if self.everything or self.prefix or self.address or self.reason:
            raise ConfigError(
                "an expiration is restored as a whole, without a selection of objects. Nothing was restored."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class IcechunkPurgeConfig(PurgeConfig):
    """Selection of copies and old versions to delete."""

    repository: str = setting("Repository", _URI, name="storage")
