"""What the driver looks at while workers delete: branches and tags, retention rules, namespaces of repositories, pins,
a person's rejection, and how long the round lasts. New commits are followed (`new_commits`); everything else that
changed ends the round."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from dredge.errors import ConfigError, RefusedError, UnavailableError
from dredge.gc.bulk_delete.new_commits import NewCommits, Published
from dredge.gc.bulk_delete.recheck import Subtracted
from dredge.gc.namespaces import refuse_sharing
from dredge.gc.referring import Referred, find_referring, open_referring
from dredge.gc.run import Run
from dredge.runs.clock import running_seconds
from dredge.runs.gate import Watch, watching
from dredge.storage.parallel import at_once
from dredge.undo.pins import names_of_pins

ROUND_OVER = "the round lasted as long as one may"
"""Why a round ends that nothing else has ended; the next one follows, however many there were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchKeys:
    """Where a round's looks and publications are written, relative to the run folder."""

    looks: str
    published: str


def watching_refs(
    run: Run,
    subtracted: Subtracted,
    keys: WatchKeys,
    kept: frozenset[str] = frozenset(),
    pins: frozenset[str] = frozenset(),
    veto: Callable[[], str] = lambda: "",
) -> AbstractContextManager[Watch]:
    """Look at refs, rules, namespaces and pins while workers delete: at once, and then every few seconds.

    Args:
        run: this run.
        subtracted: what the mark and the re-checks subtracted.
        keys: of this round; no two drivers may share them.
        kept: folders in which workers delete nothing, because other repositories lie there.
        pins: names of those that workers respect.
        veto: looked at as well: says who forbids to go on, "" for nobody.
    """
    safety, began = run.plan.config.safety, running_seconds()
    published = Published(run.folder, keys.published)
    followed = [NewCommits(run, subtracted, published), *_of_referring(run, subtracted, published)]

    def look() -> str | None:
        with at_once() as ask:
            looks = [
                ask(lambda: veto() or None),
                *(ask(look_at_refs, new) for new in followed),
                ask(lambda: look_at_rules(run, subtracted)),
                ask(lambda: look_at_namespaces(run, kept, subtracted.referring)),
                ask(lambda: look_at_pins(run, pins)),
            ]
        found = next(filter(None, (answer.result() for answer in looks)), None)
        is_over = running_seconds() - began >= safety.round_seconds_max
        return found or (ROUND_OVER if is_over else None)

    every_seconds = safety.heads_every_seconds
    return watching(run.folder, run.state, keys.looks, look, every_seconds, lambda: published.number)


def _of_referring(run: Run, subtracted: Subtracted, published: Published) -> Iterator[NewCommits]:
    for item in subtracted.referring:
        view = open_referring(run, item.repository, item.namespace)
        yield NewCommits(view, Subtracted.of_referring(run, item), published)


def check_sharing(run: Run) -> frozenset[str]:
    """Refuse to delete in a namespace that another repository shares since the guards looked: what it needs is in none
    of the commits that were read.

    Returns:
        Folders below `data/` in which other repositories lie, and in which nothing is deleted.

    Raises:
        RefusedError: one shares it.
    """
    return refuse_sharing(run.plan.repository, run.plan.namespace, _namespaces(run))


def _namespaces(run: Run) -> dict[str, str]:
    return {found.name: found.namespace for found in run.client.repositories()}


def look_at_namespaces(run: Run, kept: frozenset[str], referring: Collection[Referred] = ()) -> str | None:
    """Tell why the sweep must stop, or None.

    Args:
        run: this run.
        kept: folders in which workers delete nothing.
        referring: repositories that refer to this one, as they were read.
    """
    namespaces = _namespaces(run)
    try:
        new = refuse_sharing(run.plan.repository, run.plan.namespace, namespaces) - kept
        refer = find_referring(run.plan.config, namespaces)
    except (ConfigError, RefusedError) as error:
        return str(error)
    if changed := refer.items() ^ {(item.repository, item.namespace) for item in referring}:
        return f"repository {min(changed)[0]}, which may refer to this one, was made or deleted"
    return f"another repository was made in {min(new)}" if new else None


def look_at_pins(run: Run, known: frozenset[str]) -> str | None:
    """Tell why the sweep must stop, or None: somebody brings objects back, and the next round respects the pin.

    Args:
        run: this run.
        known: names of the pins that workers respect.
    """
    new = names_of_pins(run.state) - known
    return f"objects were brought back ({min(new)})" if new else None


def look_at_rules(run: Run, subtracted: Subtracted) -> str | None:
    """Tell why the sweep must stop, or None: other retention rules may keep what was not subtracted.

    Raises:
        UnavailableError: the server does not answer.
    """
    is_changed = run.client.rules(run.plan.repository) != subtracted.rules
    return "the retention rules were changed" if is_changed else None


def look_at_refs(new: NewCommits) -> str | None:
    """Tell why the sweep must stop, or None; publishes what new commits of a repository name.

    Raises:
        UnavailableError: branches and tags could not be looked at.
    """
    client, plan = new.run.client, new.run.plan
    try:
        with at_once() as ask:
            tags = ask(client.tags, plan.repository) if plan.config.keep_tags else None
            branches = client.branches(plan.repository)
        return new.follow(branches, [] if tags is None else tags.result())
    except Exception as error:
        # Without a look no worker may delete, whatever the error is.
        raise UnavailableError(f"branch heads could not be looked at: {error}") from error
