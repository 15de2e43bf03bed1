"""Was the repo info replaced by an earlier version of itself? Then newer snapshots look as if nothing listed them.

Each change of the repo info first copies it to `overwritten/`, and is noted in its operations log. So the latest
operation that a copy knows is in the log of every later version: a copy whose latest operation the current log
lacks was made from a later version than the current one. A copy that no change followed, because a writer was
killed or lost a race, holds a version that came about, and does not alarm. For the same reason a repo info that
was put back by just one version looks like one whose last change did not come about; what that change wrote is
protected by its age only.
"""

from __future__ import annotations

from itertools import islice

from dredge.errors import NotFoundError, RefusedError
from dredge.icechunk.format.repo_info import OVERWRITTEN, REPO_KEY, RepoInfo, parse_repo_info, written_at
from dredge.icechunk.format.snapshots import micros
from dredge.storage import ObjectReader

_LISTED_MAX = 1000
_READ_MAX = 16


def newest_copies(reader: ObjectReader) -> list[str]:
    """Give the names of the newest copies of the repo info, newest first; their names sort so."""
    keys = (
        key for batch in reader.list(f"{OVERWRITTEN}{REPO_KEY}.") for key in batch.column("key").to_pylist()
    )
    names = (key.removeprefix(OVERWRITTEN) for key in islice(keys, _LISTED_MAX))
    return [name for name in names if written_at(name) is not None]


def check_not_rolled_back(reader: ObjectReader, info: RepoInfo, copies: list[str]) -> None:
    """Look into the newest copies that the operations log does not name.

    Args:
        reader: on the repository.
        info: the current repo info.
        copies: names of copies that were there before it was read, newest first.

    Raises:
        RefusedError: one of them is later than the current repo info.
        FormatError: one of them is damaged.
    """
    if not info.updates:
        return
    logged = {(update.kind, update.updated_at) for update in info.updates}
    named = {update.backup for update in info.updates} | {info.before_updates}
    oldest = info.updates[-1].updated_at
    unnamed = (name for name in copies if name not in named)
    for name in islice(unnamed, _READ_MAX):
        made = written_at(name)
        if made is None or micros(made) < oldest:
            return
        try:
            updates = parse_repo_info(reader.get(OVERWRITTEN + name), OVERWRITTEN + name).updates
        except NotFoundError:
            continue
        if (
            updates
            and updates[0].updated_at >= oldest
            and (updates[0].kind, updates[0].updated_at) not in logged
        ):
            raise RefusedError(
                f"{reader.uri}/{OVERWRITTEN}{name} is a copy of a later repo info than {REPO_KEY}: it knows an"
                f" operation ({updates[0].kind}) that the current one does not, so {REPO_KEY} was replaced by an"
                " earlier version. Nothing was changed or deleted. Put the latest version back; if this state is"
                f" wanted, remove the copies that are later than it from {OVERWRITTEN}."
            )
