"""Known commits: what the last complete mark called active, the server must still know.

lakeFS never removes the record of a commit. So a commit that a mark called active and that the server does not know any
more means that this server has an older or another database. A repository that was deleted and created again has other
commits, too: it starts without a record if no metarange in its namespace is older than it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from dredge.errors import NotFoundError
from dredge.gc.run import Run
from dredge.gc.witness.block import refuse
from dredge.gc.witness.past import Past
from dredge.gc.witness.record import COMMITS, MarkRecord
from dredge.gc.witness.unnamed import list_tables, read_kinds
from dredge.lakefs import LakeFS, Repository
from dredge.lakefs.files.sstable import METARANGES
from dredge.storage.parallel import ordered_map

log = logging.getLogger("dredge")

UNKNOWN, CREATED_AGAIN = "known_commits", "created_again"
"""Kinds of refusals."""
_AT_ONCE = 16
_EXAMPLES_MAX = 5


def check_life(run: Run, past: Past, repository: Repository) -> Past:
    """Compare the repository's creation date with that in the record of the last complete mark.

    Args:
        run: the run.
        past: what earlier marks left.
        repository: as the server returns it now.

    Returns:
        The past; without a record if the repository was created again on a namespace without older metaranges.

    Raises:
        WitnessError: it was created again, and metaranges are older than it.
    """
    record = past.record
    if record is None or not is_other_life(record, repository):
        return past
    older = _older_metarange(run, past, repository) if past.compares else None
    if older is not None:
        refuse(
            run,
            CREATED_AGAIN,
            f"{run.plan.repository} was created at {repository.created_at}, and run {record.run_id} marked a repository"
            f" of that name that was created at {record.repository_created_at}. Metaranges such as _lakefs/{older} are"
            " older than the repository of now, so commits that this server does not know may name objects of the"
            " namespace. If the repository was restored from a dump of its refs, or created again on purpose:"
            f" `dredge gc lost {run.plan.repository}` lists commits that the server does not know,"
            f" `dredge gc forget-lost {run.plan.repository} --reason …` gives them up. If this is another server"
            " (a copy, a test installation): use the connection of the right one.",
            {"run_id": record.run_id, "metarange": older},
        )
    log.info("run %s: %s was created again; its first mark", run.plan.run_id, run.plan.repository)
    return replace(past, record=None, commits=COMMITS.empty_table())


def check_known(run: Run, past: Past, shown: Collection[str]) -> None:
    """Ask the server for the commits that the last complete mark called active and this one does not see.

    Args:
        run: the run.
        past: what earlier marks left.
        shown: ids of the commits that this mark sees.

    Raises:
        WitnessError: the server does not know some of them.
    """
    unknown = find_unknown(run.client, run.plan.repository, past, shown)
    if not unknown:
        return
    record, name = past.record, run.plan.repository
    assert record is not None
    refuse(
        run,
        UNKNOWN,
        f"lakeFS does not know {len(unknown):,} commits of {name} that run {record.run_id} saw at"
        f" {record.marked_at:%Y-%m-%d %H:%M} UTC, such as {_examples(past, unknown)}. lakeFS never removes commits, so"
        " this server has an older database (restored from a backup), or another one. If the database was restored:"
        f" `dredge gc lost {name}` lists the lost commits, and with --apply it makes them known again. If the older"
        f" state is wanted: `dredge gc forget-lost {name} --reason …`. If this is another server: use the connection"
        " of the right one.",
        {"run_id": record.run_id, "commits": len(unknown), "examples": unknown[:_EXAMPLES_MAX]},
    )


def find_unknown(client: LakeFS, repository: str, past: Past, shown: Collection[str]) -> list[str]:
    """Find the commits that the last complete mark called active, or the newest that it did not, and that the server
    does not know.

    Each that is not shown takes a request. A 404 counts only if the server also denies the commit under a shorter
    prefix of its id (L42), which `LakeFS.commit` asks for. A commit whose content a person gave another commit
    (`dredge gc lost --apply`) counts as known as long as that one is.

    Args:
        client: the lakeFS server.
        repository: name.
        past: what earlier marks left.
        shown: ids of commits that the server shows.

    Returns:
        Ids, sorted.
    """
    asked: Sequence[str] = sorted({*past.active, *past.newest_inactive}.difference(shown))
    if asked:
        log.info("%s: lakeFS is asked for %d commits that the last mark saw", repository, len(asked))

    def is_known(commit_id: str) -> bool:
        instead = past.restored.get(commit_id)
        return _exists(client, repository, commit_id) or (
            instead is not None and (instead in shown or _exists(client, repository, instead))
        )

    known = ordered_map(is_known, asked, _AT_ONCE)
    return [commit_id for commit_id, found in zip(asked, known, strict=True) if not found]


def is_other_life(record: MarkRecord, repository: Repository) -> bool:
    """Whether a record is about an earlier repository of the same name; not so if a creation date is not known."""
    dates = {record.repository_created_at, repository.created_at}
    return None not in dates and len(dates) > 1


def _exists(client: LakeFS, repository: str, commit_id: str) -> bool:
    try:
        client.commit(repository, commit_id)
    except NotFoundError:
        return False
    return True


def _older_metarange(run: Run, past: Past, repository: Repository) -> str | None:
    """A metarange that was written before the repository was created; None if there is none."""
    created = repository.created_at
    assert created is not None
    files = list_tables(run.reader)
    older = [name for name, info in sorted(files.items()) if info.last_modified < created]
    for name in older:
        if name in past.metaranges:
            return name
    kinds = read_kinds(run.reader, [files[name] for name in older])
    return next((name for name, kind in kinds.items() if kind == METARANGES), None)


def _examples(past: Past, unknown: Sequence[str]) -> str:
    rows = past.rows(unknown)
    heads = [row for row in rows if row["branches"]] + [row for row in rows if not row["branches"]]
    words = []
    for row in heads[:3]:
        head = f" (head of {', '.join(row['branches'])})" if row["branches"] else ""
        words.append(f"{row['commit_id']}{head}")
    return "; ".join(words)
