"""What the driver looks at while workers delete: branch heads, which must stay at commits that were subtracted, whether
another repository came to share the namespace, and whether a person has forbidden to go on."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager

from dredge.errors import RefusedError, UnavailableError
from dredge.gc.namespaces import refuse_sharing
from dredge.gc.run import Run
from dredge.runs.watch import Watch, watching


def watching_heads(
    run: Run, commits: Collection[str], key: str, veto: Callable[[], str] = lambda: ""
) -> AbstractContextManager[Watch]:
    """Look at branch heads while workers delete: at once, and then every few seconds.

    Args:
        run: this run.
        commits: ids of those whose objects were subtracted.
        key: where the looks are written down; see `dredge.runs.watch`.
        veto: looked at as well: says who forbids to go on, "" for nobody.
    """
    every_seconds = run.plan.config.safety.heads_every_seconds

    def look() -> str | None:
        return veto() or look_at_heads(run, commits) or look_at_namespaces(run)

    return watching(run.folder, run.state, key, look, every_seconds)


def check_sharing(run: Run) -> None:
    """Refuse to delete in a namespace that another repository shares since the guards looked: what it needs is in none
    of the commits that were read.

    Raises:
        RefusedError: one does.
    """
    namespaces = {found.name: found.namespace for found in run.client.repositories()}
    refuse_sharing(run.plan.repository, run.plan.namespace, namespaces)


def look_at_namespaces(run: Run) -> str | None:
    """Tell why the sweep must stop, or None."""
    try:
        check_sharing(run)
    except RefusedError as error:
        return str(error)
    return None


def look_at_heads(run: Run, commits: Collection[str]) -> str | None:
    """Tell why the sweep must stop, or None.

    Raises:
        UnavailableError: heads could not be looked at.
    """
    try:
        moved = moved_ref(run, commits)
    except Exception as error:
        # Whatever it is: nobody looks now, so nobody may delete.
        raise UnavailableError(f"branch heads could not be looked at: {error}") from error
    return None if moved is None else f"{moved} is at a commit that was not checked"


def moved_ref(run: Run, commits: Collection[str]) -> str | None:
    """A branch (or tag, where tags keep data) at a commit that nothing was subtracted for; None when there is none.

    Args:
        run: this run.
        commits: ids of those whose objects were subtracted.
    """
    client, plan = run.client, run.plan
    refs = list(client.branches(plan.repository))
    if plan.config.keep_tags:
        refs += client.tags(plan.repository)
    return next((ref.id for ref in refs if ref.commit_id not in commits), None)
