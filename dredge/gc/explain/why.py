"""Everything that keeps an object, or the run that deleted it.

    refs and their history, from the server      → which commits are active, and until when
    metaranges and the index                     → which of them name the object, under which path
    staging records, or the branches' changes    → which branch has it staged
    the store, and what runs left                → its age, what held it, when it was deleted

The answer is about now: only the index and the metaranges of earlier runs are reused, and these never change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import pyarrow as pa

from dredge.errors import NotFoundError
from dredge.gc.analysis.base_run import BaseRun, find_base
from dredge.gc.analysis.kv_records import all_commits
from dredge.gc.config import MIN_AGE_HOURS
from dredge.gc.explain.answer import Answer, NamedBy, StagedBy
from dredge.gc.explain.judged import last_judged
from dredge.gc.explain.naming import Naming
from dredge.gc.explain.staging import staged_by_server, staged_in_kv
from dredge.gc.explain.target import Target
from dredge.gc.index.metaranges import Metaranges
from dredge.gc.list_committed.graph import Graph, load_graph
from dredge.gc.mark_uncommitted.kv_access import KVAccess
from dredge.gc.retention.lines import FOREVER, Line, lines_of
from dredge.gc.retention.policy.model import RetentionPolicy
from dredge.gc.run import open_state
from dredge.gc.sets.files import read_hashes
from dredge.hashing import hash64
from dredge.lakefs import LakeFS, Ref, Rules
from dredge.storage import StorageOptions, open_reader

REQUESTS_MAX = 500
"""Requests made to the server to find out which branch has the object staged."""
EXPIRED_MAX = 500
"""Expired commits that are looked into, newest first; they keep nothing, but tell where an object was."""


@dataclass(frozen=True, slots=True)
class _History:
    """Refs and commits, as the server has them now, with what keeps them."""

    branches: list[Ref]
    tags: list[Ref]
    rules: Rules | None
    graph: Graph
    lines: dict[str, Line]
    policies: dict[str, tuple[str, ...]]
    has_all: bool


def why(
    client: LakeFS,
    target: Target,
    now: datetime,
    run_root: str | None = None,
    access: KVAccess | None = None,
    options: StorageOptions | None = None,
    policy: RetentionPolicy | None = None,
    requests_max: int = REQUESTS_MAX,
) -> Answer:
    """Find everything that keeps an object, or the run that deleted it.

    Args:
        client: the server.
        target: the object.
        now: aware UTC.
        run_root: where runs were told to put their folders; None is the repository's namespace.
        access: lakeFS's key-value store; None asks the server about staging.
        options: None reads the environment.
        policy: that runs are given; None takes that of the newest run.
        requests_max: requests to the server about staging.

    Raises:
        RefusedError: history cannot be read, or the key-value store is not the server's.
    """
    root = run_root or target.namespace
    base = find_base(root, target.repository, options, whole=False)
    answer = Answer(target)
    _look_at_the_store(answer, base, now, options)
    history = _history(client, target, base, now, policy, access)
    _find_commits(answer, base, history, now, options)
    _find_staged(answer, base, client, history.branches, access, requests_max)
    hashed = hash64(pa.array([target.address], pa.string()))[0]
    answer.judged, unread = last_judged(target, int(hashed), root, options)
    answer.not_looked_at += unread
    if base is None:
        answer.not_looked_at.append(
            "no run of this repository was found: what runs held or deleted is not known"
        )
    return answer


def _look_at_the_store(
    answer: Answer, base: BaseRun | None, now: datetime, options: StorageOptions | None
) -> None:
    try:
        info = open_reader(answer.target.namespace, options).stat(answer.target.address)
    except NotFoundError:
        return
    seconds = MIN_AGE_HOURS * 3600 if base is None else base.plan.config.min_age_seconds
    answer.size_bytes, answer.last_modified = info.size, info.last_modified
    until = info.last_modified + timedelta(seconds=seconds)
    answer.young_until = until if until > now else None


def _history(
    client: LakeFS,
    target: Target,
    base: BaseRun | None,
    now: datetime,
    policy: RetentionPolicy | None,
    access: KVAccess | None,
) -> _History:
    name = target.repository
    branches, tags = client.branches(name), client.tags(name)
    graph = load_graph(client, name, branches)
    load_graph(client, name, tags, graph)
    if access is not None:
        graph = all_commits(access, name, target.namespace) | graph
    rules = client.rules(name)
    if policy is None and base is not None:
        policy = base.plan.config.policy
    policies: dict[str, list[str]] = defaultdict(list)
    for keep in policy.keeps(branches, graph) if policy is not None else ():
        for commit in keep.commits:
            policies[commit].append(
                keep.rule.name + (f" (paths {', '.join(keep.rule.paths)})" if keep.rule.paths else "")
            )
    return _History(
        branches=branches,
        tags=tags,
        rules=rules,
        graph=graph,
        lines=lines_of(graph, branches, rules, now),
        has_all=access is not None,
        policies={commit: tuple(names) for commit, names in policies.items()},
    )


def _find_commits(
    answer: Answer, base: BaseRun | None, history: _History, now: datetime, options: StorageOptions | None
) -> None:
    target = answer.target
    past = None if base is None else base.history()
    naming = Naming(
        target=target,
        hashed=hash64(pa.array([target.address], pa.string()))[0],
        reader=open_reader(target.namespace, options),
        state=open_state(target.namespace, options),
        known=Metaranges() if past is None else past.metaranges,
    )
    keep_tags = base is None or base.plan.config.keep_tags
    metaranges = {commit.id: commit.metarange_id for commit in history.graph.values()}
    tags: dict[str, list[str]] = defaultdict(list)
    for tag in history.tags:
        tags[tag.commit_id].append(tag.id)
    active = {
        commit_id
        for commit_id, line in history.lines.items()
        if line.is_active(now) or commit_id in history.policies or (keep_tags and commit_id in tags)
    }
    if past is not None:
        dangling = {item: past.active[item] for item in past.dangling if item not in metaranges}
        metaranges |= dangling
        active |= dangling.keys()
    expired = sorted(
        metaranges.keys() - active, key=lambda item: history.graph[item].created_at, reverse=True
    )
    if len(expired) > EXPIRED_MAX:
        answer.not_looked_at.append(
            f"{len(expired) - EXPIRED_MAX:,} of {len(expired):,} expired commits; they keep nothing"
        )
    looked = [*active, *expired[:EXPIRED_MAX]]
    named = naming.ranges_of({metaranges[item] for item in looked} - {""})
    by_date = sorted(
        (item for item in looked if metaranges[item] in named),
        key=lambda item: (
            item in active,
            str(history.graph[item].created_at) if item in history.graph else "",
        ),
        reverse=True,
    )
    paths = naming.paths_of(
        dict.fromkeys(found for item in by_date for found in sorted(named[metaranges[item]]))
    )
    for item in by_date:
        ranges = named[metaranges[item]]
        if all(found in paths and not paths[found] for found in ranges):
            continue  # another address with the same hash
        there = tuple(dict.fromkeys(path for found in ranges for path in paths.get(found, ())))
        answer.commits.append(_named_by(history, item, item in active, there, tuple(tags[item]), now))
    answer.not_looked_at += naming.unread
    if not history.has_all:
        answer.not_looked_at.append(
            "commits that no branch and no tag leads to"
            + ("" if past is None else f", but for {len(past.dangling):,} that {_name(base)} found active")
        )


def _name(base: BaseRun | None) -> str:
    return "no run" if base is None else base.text


def _named_by(
    history: _History,
    commit_id: str,
    active: bool,
    paths: tuple[str, ...],
    tags: tuple[str, ...],
    now: datetime,
) -> NamedBy:
    line, commit = history.lines.get(commit_id), history.graph.get(commit_id)
    found = NamedBy(
        commit_id=commit_id,
        created_at=None if commit is None else commit.created_at,
        active=active,
        paths=paths,
        tags=tags,
        policies=history.policies.get(commit_id, ()),
    )
    if line is None:
        return found
    return NamedBy(
        commit_id=commit_id,
        created_at=found.created_at,
        active=active,
        paths=paths,
        heads=tuple(line.heads),
        branches=tuple(line.branches),
        num_branches=line.num_branches,
        tags=tags,
        policies=found.policies,
        until=line.until if line.until not in (None, FOREVER) else None,
        rule=_rule(history.rules, line, now),
    )


def _rule(rules: Rules | None, line: Line, now: datetime) -> str:
    """What keeps a commit the longest that is no head, in words."""
    if rules is None:
        return "the repository has no rules: nothing expires"
    if line.until is None or line.until <= now:
        return ""
    if line.by in rules.branches:
        return f"{rules.branches[line.by]} days for {line.by}"
    where = f"on {line.by}" if line.by else "where no branch leads to"
    return f"{rules.default_retention_days} days by default, {where}"


def _find_staged(
    answer: Answer,
    base: BaseRun | None,
    client: LakeFS,
    branches: Sequence[Ref],
    access: KVAccess | None,
    requests_max: int,
) -> None:
    target = answer.target
    if access is not None:
        answer.staged = staged_in_kv(access, target)
        return
    first = sorted(branches, key=lambda branch: branch.id != target.ref)
    answer.staged, left = staged_by_server(client, target, first, requests_max)
    if base is not None and not answer.staged and _was_staged(base, target):
        answer.staged.append(StagedBy("", as_of=base.plan.created_at))
    if left:
        answer.not_looked_at.append(
            f"what {left:,} of {len(branches):,} branches have staged; the key-value store (DREDGE_KV_URL) would tell"
        )
    else:
        answer.not_looked_at.append(
            "staged copies of what a head has: lakeFS does not show them, the key-value store (DREDGE_KV_URL) would"
        )


def _was_staged(base: BaseRun, target: Target) -> bool:
    hashed = hash64(pa.array([target.address], pa.string()))[0]
    return any(hashed in read_hashes(base.folder, part) for part in base.staged.hashes)
