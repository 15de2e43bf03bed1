"""Metaranges that no commit names, or that were just written: a run counts them as active commits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from dredge.gc.analysis.base_run import BaseRun
from dredge.gc.config import KEEP_UNNAMED_DAYS, MIN_AGE_HOURS
from dredge.gc.explain.answer import UnnamedBy
from dredge.gc.explain.naming import Naming
from dredge.gc.witness.past import Past
from dredge.gc.witness.unnamed import Known, list_tables, sort_out


def named_by_unnamed(
    naming: Naming, base: BaseRun | None, named: Collection[str], active: Collection[str], now: datetime
) -> Iterator[UnnamedBy]:
    """Find the metaranges that name an object and count as active commits although no active commit names them.

    Args:
        naming: looks for the object; what it could not read is noted there.
        base: the newest run; None takes the settings that a run has by default.
        named: metaranges of all commits that are known.
        active: metaranges of those of them that keep everything they name.
        now: aware UTC.

    Raises:
        RefusedError: a newer version of Dredge wrote the record of the last mark.
        FormatError: the record is damaged.
    """
    config = None if base is None else base.plan.config
    age = timedelta(seconds=MIN_AGE_HOURS * 3600 if config is None else config.min_age_seconds)
    keep = timedelta(days=KEEP_UNNAMED_DAYS if config is None else config.keep_unnamed_days)
    namespace = naming.target.namespace
    past, files = Past.read(naming.state, namespace), list_tables(naming.reader)
    known = Known(
        named={*named},
        earlier=past.metaranges,
        ranges=naming.known.ranges,
        kinds=past.kinds,
        forgotten=past.forgotten,
    )
    since = past.since(now, keep)
    found = sort_out(naming.reader, naming.state, namespace, files, known, now - age, since)
    hits = naming.ranges_of(found.metaranges.difference(active))
    for metarange_id, ranges in sorted(hits.items()):
        paths = naming.paths_of(ranges)
        if all(item in paths and not paths[item] for item in ranges):
            continue  # another address with the same hash
        written_at = files[metarange_id].last_modified
        until = written_at + (keep if metarange_id in found.lost else age)
        there = tuple(dict.fromkeys(path for item in ranges for path in paths.get(item, ())))
        yield UnnamedBy(metarange_id, written_at, until if until > now else None, there)
