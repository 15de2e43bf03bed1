"""Collects the reasons for keeping an object, or the run that deleted it.

    refs and their history, from the server      → active commits, and their expiry
    metaranges and the index                     → commits with the object, and its paths
    metaranges without a commit                  → those counted as active commits
    staging records, or the branches' changes    → branches with the object staged
    the store, and the results of runs           → its age, holds, its deletion

The answer describes the present: only the index and the metaranges of earlier runs are reused, and these never change.
Unreadable sources are listed, and then no object counts as garbage or absent.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
from msgspec import Struct

from dredge.errors import FormatError, NotFoundError, UnavailableError
from dredge.gc.config import MIN_AGE_HOURS
from dredge.gc.index.ranges import Metaranges
from dredge.gc.index.store import Lookup
from dredge.gc.insight.base_run import BaseRun, History, find_base
from dredge.gc.insight.why_answer import COMMITS, STORE, Answer, NamedBy, PinnedBy, StagedBy, Target
from dredge.gc.insight.why_evidence import (
    Naming,
    last_judged,
    named_by_unnamed,
    staged_by_server,
    staged_in_kv,
)
from dredge.gc.list_committed import Graph, load_graph
from dredge.gc.mark_uncommitted import KVAccess
from dredge.gc.namespaces import Keys
from dredge.gc.retention import FOREVER, Line, PolicyRule, RetentionPolicy, compile_glob, find_lines
from dredge.gc.run import open_state
from dredge.hashing import hash64
from dredge.lakefs import LakeFSClient, Ref, Rules
from dredge.runs.report import number_of
from dredge.sets.hashes import read_hashes
from dredge.storage import StorageOptions, open_reader
from dredge.undo.pins import active_pins

# Limit of requests to the server about staging.
REQUESTS_MAX = 500
# Limit of expired commits, newest first; they keep no object, but show its former place.
EXPIRED_MAX = 500


class _Commits(Struct, frozen=True):
    branches: list[Ref]
    rules: Rules | None
    graph: Graph
    lines: dict[str, Line]
    has_all: bool
    metaranges: dict[str, str]
    active: set[str]
    # names of tags, and rules of the policy, by commit
    tags: dict[str, list[str]]
    policies: dict[str, list[PolicyRule]]


def why(
    client: LakeFSClient,
    target: Target,
    now: datetime,
    run_root: str | None = None,
    access: KVAccess | None = None,
    options: StorageOptions | None = None,
    policy: RetentionPolicy | None = None,
    requests_max: int = REQUESTS_MAX,
) -> Answer:
    """Collect the reasons for keeping an object, or the run that deleted it. `run_root`: folder of the runs; None is
    the repository's namespace. `access`: lakeFS's key-value store; None asks the server about staging. `policy`: of the
    runs; None takes the policy of the newest run. Raises RefusedError: an unreadable history, or the key-value store of
    another server."""
    root = run_root or target.namespace
    answer = Answer(target)
    with _failing(answer, STORE):
        _read_store(answer, now, options)
    base: BaseRun | None = None
    with _failing(answer, "the files of earlier runs"):
        base = find_base(root, target.repository, options, whole=False)
        _note_age(answer, base, now)
        if base is None:
            answer.not_read.append(
                "no run of this repository was found: holds and deletions of runs are not known"
            )
    branches: list[Ref] = []
    with _failing(answer, COMMITS):
        past = None if base is None else base.history()
        commits = _read_commits(client, target, base, past, now, policy, access)
        branches = commits.branches
        _find_commits(answer, base, past, commits, now, options)
    with _failing(answer, "staging"):
        _find_staged(
            answer, base, client, branches or client.branches(target.repository), access, requests_max
        )
    with _failing(answer, "repositories that refer to this one"):
        if base is not None:
            answer.referring = base.referring_with(_hash(target))
    with _failing(answer, "pins"):
        pins = active_pins(open_state(target.namespace, options), now)
        answer.pins = [
            PinnedBy(pin.pin_id, pin.run_id, pin.reason, pin.until)
            for pin in pins
            if pin.has(int(_hash(target)))
        ]
    with _failing(answer, "the results of earlier runs"):
        answer.judged, unread = last_judged(target, int(_hash(target)), root, options)
        answer.not_read += unread
    return answer


@contextmanager
def _failing(answer: Answer, what: str) -> Iterator[None]:
    """Note an unreadable source and continue; errors for a person to correct are raised."""
    try:
        yield
    except (UnavailableError, FormatError) as error:
        answer.failed.add(what)
        answer.not_read.append(f"{what}: {error}")


def _read_store(answer: Answer, now: datetime, options: StorageOptions | None) -> None:
    try:
        info = open_reader(answer.target.namespace, options).stat(answer.target.address)
    except NotFoundError:
        return
    answer.size_bytes, answer.last_modified = info.size, info.last_modified
    _note_age(answer, None, now)


def _note_age(answer: Answer, base: BaseRun | None, now: datetime) -> None:
    """Set the end of the minimum age, from the newest run, or from the default."""
    if answer.last_modified is None:
        return
    seconds = MIN_AGE_HOURS * 3600 if base is None else base.plan.config.min_age_seconds
    until = answer.last_modified + timedelta(seconds=seconds)
    answer.young_until = until if until > now else None


def _read_commits(
    client: LakeFSClient,
    target: Target,
    base: BaseRun | None,
    past: History | None,
    now: datetime,
    policy: RetentionPolicy | None,
    access: KVAccess | None,
) -> _Commits:
    name = target.repository
    branches, tag_refs = client.branches(name), client.tags(name)
    graph = load_graph(client, name, branches)
    load_graph(client, name, tag_refs, graph)
    if access is not None:
        with access.records(name, target.namespace) as records:
            graph = records.commits() | graph
    rules = client.rules(name)
    if policy is None and base is not None:
        policy = base.plan.config.policy
    policies: dict[str, list[PolicyRule]] = defaultdict(list)
    for keep in policy.keeps(branches, graph) if policy is not None else ():
        for commit in keep.commits:
            policies[commit].append(keep.rule)
    tags: dict[str, list[str]] = defaultdict(list)
    for tag in tag_refs:
        tags[tag.commit_id].append(tag.id)
    lines = find_lines(graph, branches, rules, now)
    active = {item for item, line in lines.items() if line.is_active(now)}
    if base is None or base.plan.config.keep_tags:
        active |= tags.keys()
    metaranges = {commit.id: commit.metarange_id for commit in graph.values()}
    if past is not None:
        dangling = {item: past.active[item] for item in past.dangling if item not in metaranges}
        metaranges |= dangling
        active |= dangling.keys()
    return _Commits(
        branches=branches,
        rules=rules,
        graph=graph,
        lines=lines,
        has_all=access is not None,
        metaranges=metaranges,
        active=active,
        tags=tags,
        policies=policies,
    )


def _find_commits(
    answer: Answer,
    base: BaseRun | None,
    past: History | None,
    commits: _Commits,
    now: datetime,
    options: StorageOptions | None,
) -> None:
    looked = _searched_commits(answer, commits)
    naming = _naming(answer.target, past, options)
    named = naming.ranges_of({commits.metaranges[item] for item in looked} - {""})
    naming_it = [item for item in looked if commits.metaranges[item] in named]
    by_date = sorted(naming_it, key=lambda item: _date(commits, item), reverse=True)
    paths = naming.paths_of(
        dict.fromkeys(found for item in by_date for found in sorted(named[commits.metaranges[item]]))
    )
    for item in by_date:
        ranges = named[commits.metaranges[item]]
        if all(found in paths and not paths[found] for found in ranges):
            continue  # another address with the same hash
        there = tuple(dict.fromkeys(path for found in ranges for path in paths.get(found, ())))
        answer.commits.append(_named_by(commits, item, there, now))
    answer.commits.sort(key=lambda commit: not commit.active)
    active = {commits.metaranges[item] for item in commits.active}
    answer.unnamed = list(named_by_unnamed(naming, base, commits.metaranges.values(), active, now))
    answer.not_read += naming.unread
    keeping = commits.active | commits.policies.keys()
    if naming.may_name({commits.metaranges[item] for item in keeping} - {""}):
        answer.failed.add(COMMITS)
    if not commits.has_all:
        known = "" if past is None else f", except {len(past.dangling):,} that {_name(base)} found active"
        answer.not_read.append(f"commits without a branch or tag{known}")


def _searched_commits(answer: Answer, commits: _Commits) -> list[str]:
    """Every active commit, and the newest of the expired ones."""
    keeping = commits.active | commits.policies.keys()
    expired = sorted(commits.metaranges.keys() - keeping, key=lambda item: _date(commits, item), reverse=True)
    if len(expired) > EXPIRED_MAX:
        left = len(expired) - EXPIRED_MAX
        answer.not_read.append(f"{left:,} of {len(expired):,} expired commits; they keep nothing")
    return [*keeping, *expired[:EXPIRED_MAX]]


def _naming(target: Target, past: History | None, options: StorageOptions | None) -> Naming:
    return Naming(
        target=target,
        hashed=_hash(target),
        lookup=Lookup(
            open_reader(target.namespace, options),
            open_state(target.namespace, options),
            Keys(namespace=target.namespace),
        ),
        known=Metaranges() if past is None else past.metaranges,
    )


def _hash(target: Target) -> np.uint64:
    found: np.uint64 = hash64(pa.array([target.address], pa.string()))[0]
    return found


def _date(commits: _Commits, commit_id: str) -> str:
    commit = commits.graph.get(commit_id)
    return "" if commit is None else commit.created_at.isoformat()


def _name(base: BaseRun | None) -> str:
    return "no run" if base is None else base.text


def _named_by(commits: _Commits, commit_id: str, paths: tuple[str, ...], now: datetime) -> NamedBy:
    line, commit = commits.lines.get(commit_id, Line()), commits.graph.get(commit_id)
    policies = tuple(rule.name for rule in commits.policies.get(commit_id, ()) if _keeps(rule, paths))
    return NamedBy(
        commit_id=commit_id,
        created_at=None if commit is None else commit.created_at,
        active=bool(policies) or commit_id in commits.active,
        paths=paths,
        heads=tuple(line.heads),
        branches=tuple(line.branches),
        num_branches=line.num_branches,
        tags=tuple(commits.tags.get(commit_id, ())),
        policies=policies,
        until=line.until if line.until != FOREVER else None,
        rule=_rule(commits.rules, line, now),
    )


def _keeps(rule: PolicyRule, paths: Sequence[str]) -> bool:
    """Whether a rule keeps an object under one of its paths; in doubt it does."""
    if not rule.paths or not paths:
        return True
    return any(compile_glob(glob).fullmatch(path) for glob in rule.paths for path in paths)


def _rule(rules: Rules | None, line: Line, now: datetime) -> str:
    """The rule with the latest expiry for a commit behind a head, in words."""
    if rules is None:
        return "the repository has no rules: nothing expires"
    if line.until is None or line.until <= now:
        return ""
    if line.by in rules.branches:
        return f"{number_of(rules.branches[line.by], 'day')} for {line.by}"
    where = f"on {line.by}" if line.by else "without a branch"
    return f"{number_of(rules.default_retention_days, 'day')} by default, {where}"


def _find_staged(
    answer: Answer,
    base: BaseRun | None,
    client: LakeFSClient,
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
        answer.not_read.append(
            f"the staging of {left:,} of {len(branches):,} branches; set DREDGE_KV_URL to read the key-value store"
        )
    else:
        answer.not_read.append(
            "staged copies of objects in a head: set DREDGE_KV_URL to read them from the key-value store"
        )


def _was_staged(base: BaseRun, target: Target) -> bool:
    hashed = _hash(target)
    return any(hashed in read_hashes(base.folder, part) for part in base.staged.hashes)
