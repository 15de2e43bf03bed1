"""Active commits: refs and history, the server's answer, and the commits kept beyond it.

    base    branch heads ∪ the server's list          (every commit, without rules)
                         ∪ our walk over the records  (`sources` has the figures of each)
    kept    our own walk over the branches' lines, and the parents of young dangling commits
            · commits of tags · each rule of the user's policy

All of these are active, except for rules about paths, which keep only some entries of their commits. Nothing here makes
the server's answer smaller.

    server     its branches, tags and logs, and its own list of active commits (prepare_commits)
    records    branches, tags and commits of the key-value store; the walk over them is done here

Both walks cover every commit, with dangling ones, by the same rules. Ours follows every line to its root, and takes the
store's time less some minutes, so it includes the server's result and the commits that the server's walk loses (L19).
prepare_commits can run out of memory on the server; our walk does not need the server.

Records are read in the order branches, tags, commits. PostgreSQL and SQLite give a snapshot. In DynamoDB each read is
later than the read before: a commit is written before a ref is at it and never removed, so the commits include all that
the refs lead to. Later changes of refs are like changes after the mark: heads of the time when staging was read count
too, range files written meanwhile count without a commit, and the re-check and the watch of branch heads find the rest.

In doubt (`StoreCheck`) the server is asked, and the commits of the records count as well.
"""

import csv
import io
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta

from msgspec import Struct, field
from msgspec.structs import replace

from dredge.errors import FormatError, NotFoundError, RefusedError
from dredge.gc.config import AUTO
from dredge.gc.index.ranges import KeptSet
from dredge.gc.mark_uncommitted import ReadCommits, RecordedCommits, StoreCheck, read_checked
from dredge.gc.namespaces import key_of
from dredge.gc.retention import find_lines, main_parent, until_after
from dredge.gc.run import Plan, Run
from dredge.lakefs import QUESTIONS, Commit, LakeFSClient, Ref, Rules
from dredge.storage.parallel import at_once, ordered_map

log = logging.getLogger("dredge")

# Commits by id, closed: with a commit all its ancestors.
type Graph = dict[str, Commit]

# A commit may be younger than its date by this much.
SLACK = timedelta(minutes=5)
SERVER, RECORDS = "server", "records"


class Found(Struct):
    """Refs, history and active commits of a repository."""

    branches: list[Ref]  # with hidden branches
    tags: list[Ref]
    graph: Graph  # commits reachable from branches, and from tags if tags are kept
    rules: Rules | None  # the repository's; None without rules
    all_commits: bool  # whether every commit is active, because there are no rules
    # metarange id by commit id, of the active commits of each source
    listed: dict[str, dict[str, str]] = field(default_factory=dict)
    records: Graph = field(default_factory=dict)  # commits of the key-value store; empty without it
    warnings: list[str] = field(default_factory=list)  # for the report


def find_history(
    run: Run, read: ReadCommits | None = None, rules: Future[Rules | None] | None = None
) -> Found:
    """Read refs and history, and find the commits active by lakeFS's rules; `read` are those of the key-value store,
    and `rules` the repository's, if read before."""
    if not run.plan.config.read_kv:
        return _from_server(run)
    with at_once() as ask:
        rules = rules or ask(run.client.rules, run.plan.repository)
        recorded, check = read or read_checked(
            run.client, run.plan.repository, run.plan.namespace, RecordedCommits
        )
    found = _from_records(run, recorded, rules.result())
    if run.plan.config.live_source == AUTO and not check.doubt:
        return found
    return _unite(found, _from_server(run), check)


def _from_records(run: Run, recorded: RecordedCommits, rules: Rules | None) -> Found:
    plan = run.plan
    branches = _in_order(run, recorded.branches)
    refs = [*branches, *(recorded.tags if plan.config.keep_tags else ())]
    graph = close_graph(recorded.commits, refs, plan.repository)
    found = Found(branches, recorded.tags, graph, rules, rules is None, records=recorded.commits)
    if rules is not None:
        # Reachable commits also alone: a dangling commit with an old date must not hide the end of a line.
        active = active_by_rules(graph, branches, rules, plan.created_at)
        active |= active_by_rules(recorded.commits, branches, rules, plan.created_at)
        found.listed[RECORDS] = {commit: recorded.commits[commit].metarange_id for commit in active}
    return found


def _from_server(run: Run) -> Found:
    client, plan = run.client, run.plan
    branches = _in_order(run, client.branches(plan.repository))
    tags = client.tags(plan.repository)
    # First, because a head without its commit ends lakeFS's process in prepare_commits.
    graph = load_graph(client, plan.repository, branches)
    if plan.config.keep_tags:
        load_graph(client, plan.repository, tags, graph)
    log.info(
        "run %s: lakeFS computes the active commits (branches: %d); usually seconds, some minutes in long histories",
        plan.run_id,
        len(branches),
    )
    prepared = client.prepare_commits(plan.repository, plan.config.safety.prepare_deadline_seconds)
    rules = client.rules(plan.repository)
    found = Found(branches, tags, graph, rules, prepared is None or rules is None)
    if prepared is not None:
        found.listed[SERVER] = _read_server_list(run, prepared.location, branches)
        check_against_graph(found.listed[SERVER], graph, prepared.location)
        if rules is None:
            found.warnings.append("the rules were deleted during the run; every commit counts as active")
    return found


def _unite(recorded: Found, server: Found, check: StoreCheck) -> Found:
    if check.doubt:
        server.warnings.append(f"commits were read from the key-value store and from lakeFS: {check.doubt}")
    # Without rules, every commit reachable from the records' refs.
    every = {commit.id: commit.metarange_id for commit in recorded.graph.values()}
    server.listed[RECORDS] = recorded.listed.get(RECORDS, every)
    check_against_graph(server.listed[RECORDS], server.graph, check.location)
    server.records = recorded.records
    return server


def _in_order(run: Run, branches: Collection[Ref]) -> list[Ref]:
    """All branches, the default branch first: it usually has the longest history."""
    plan = run.plan
    if not branches:
        raise RefusedError(
            f"lakeFS lists no branches of {plan.repository}; every repository has one. Nothing was deleted."
        )
    return sorted(branches, key=lambda branch: (branch.id != plan.default_branch, branch.id))


def _read_server_list(run: Run, location: str, branches: list[Ref]) -> dict[str, str]:
    try:
        data = run.reader.get(key_of(location, run.plan.namespace))
    except NotFoundError:
        raise RefusedError(
            f"lakeFS says that it wrote the active commits to {location}, but the object is missing. Nothing was"
            " deleted. Read the lakeFS log."
        ) from None
    server = read_commits_csv(data, location)
    if not server:
        raise RefusedError(
            f"the server's list of active commits ({location}) is empty although there are {len(branches)}"
            " branches. Nothing was deleted. Read the lakeFS log."
        )
    return server


def read_commits_csv(data: bytes, name: str) -> dict[str, str]:
    """Parse the server's list of active commits: metarange id by commit id."""
    try:
        rows = csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), strict=True)
        if rows.fieldnames != ["commit_id", "expired", "metarange_id"]:
            raise FormatError(f"{name}: the columns are {rows.fieldnames}. Nothing was deleted.")
        commits = {}
        for row in rows:
            commit_id, metarange_id = row["commit_id"], row["metarange_id"]
            if not commit_id or metarange_id is None or None in row:
                raise FormatError(f"{name}: line {rows.line_num} is damaged. Nothing was deleted.")
            if row["expired"] != "false":
                raise FormatError(
                    f"{name}: commit {commit_id} is marked {row['expired']!r}, which this version does not"
                    " know. Nothing was deleted."
                )
            commits[commit_id] = metarange_id
    except (UnicodeDecodeError, csv.Error) as error:
        raise FormatError(f"{name}: not a list of commits: {error}. Nothing was deleted.") from None
    return commits


def check_against_graph(server: Mapping[str, str], graph: Graph, name: str) -> None:
    """Compare a list of commits with the API; raises FormatError if their metaranges differ."""
    for commit_id, metarange_id in server.items():
        commit = graph.get(commit_id)
        if commit is not None and commit.metarange_id != metarange_id:
            raise FormatError(
                f"{name}: commit {commit_id} has metarange {metarange_id!r} there and"
                f" {commit.metarange_id!r} in its log. Nothing was deleted."
            )


def known_commit(client: LakeFSClient, repository: str, commit_id: str, about: str) -> Commit:
    """Read a commit; raises RefusedError, beginning with `about`, if it does not exist."""
    try:
        return client.commit(repository, commit_id)
    except NotFoundError as error:
        raise RefusedError(f"{about}: {error}. Nothing was deleted. Start a new run.") from None


def load_graph(
    client: LakeFSClient, repository: str, refs: Sequence[Ref], graph: Graph | None = None
) -> Graph:
    """Read the history of refs (the longest first) into `graph`, each commit once, and prove that each ref's commit
    exists."""
    read: Graph = {} if graph is None else graph
    for ref in refs:
        if ref.commit_id in read:
            continue
        try:
            missing = _read(client.log(repository, ref.id), ref.commit_id, read)
        except NotFoundError:
            missing = {ref.commit_id}  # the ref was deleted, or the server's cache denies its commit
        if missing:
            _read_by_id(client, repository, ref, read)
    return read


def _read(log: Iterable[Commit], wanted: str, graph: Graph) -> set[str]:
    """Add commits of a log until the graph has the wanted commit with all ancestors; return the ids still missing."""
    found: Graph = {}
    missing = {wanted}
    for commit in log:
        missing.discard(commit.id)
        found[commit.id] = commit
        missing.update(parent for parent in commit.parents if parent not in found and parent not in graph)
        if not missing:
            break
    # If only the wanted commit is missing, the ref has moved, and its log is closed as well.
    if not missing or missing == {wanted}:
        graph.update(found)
    return missing


def _read_by_id(client: LakeFSClient, repository: str, ref: Ref, graph: Graph) -> None:
    """Read the history of a ref's commit with one request for each commit: slow, but independent of caches and refs."""
    found: Graph = {}
    waiting = [ref.commit_id]
    while waiting:
        commit_id = waiting.pop()
        if commit_id in graph or commit_id in found:
            continue
        try:
            commit = client.commit(repository, commit_id)
        except NotFoundError:
            raise RefusedError(
                f"{ref.id} of {repository} leads to commit {commit_id}, which does not exist, also not"
                " under a shorter prefix of its id. A request for active commits would end lakeFS's process."
                " Nothing was deleted. Repair the branch by a hard reset to a sound ref, then start a new"
                " run."
            ) from None
        found[commit_id] = commit
        waiting.extend(commit.parents)
    graph.update(found)


def close_graph(every: Graph, refs: Iterable[Ref], repository: str) -> Graph:
    """Return the history of refs, taken from known commits."""
    graph: Graph = {}
    for ref in refs:
        waiting = [ref.commit_id]
        while waiting:
            commit_id = waiting.pop()
            if commit_id in graph:
                continue
            if commit_id not in every:
                raise RefusedError(
                    f"{ref.id} of {repository} leads to commit {commit_id}, of which the key-value store has no record."
                    " A request for active commits would end lakeFS's process. Nothing was deleted. Repair the branch"
                    " by a hard reset to a sound ref, then start a new run."
                )
            graph[commit_id] = every[commit_id]
            waiting.extend(every[commit_id].parents)
    return graph


def active_by_rules(graph: Graph, branches: Sequence[Ref], rules: Rules, now: datetime) -> set[str]:
    """Compute the active commits of a history and all its branches; an earlier time keeps more."""
    heads = {branch.commit_id for branch in branches}
    if not graph.keys() >= heads | {parent for commit in graph.values() if (parent := main_parent(commit))}:
        raise RefusedError(
            "a commit has a parent without a record, so the active commits behind it are unknown. Nothing was"
            " deleted. A request for active commits would end lakeFS's process."
        )
    # Times from the API are whole seconds, and clocks differ a little: in doubt a commit is young.
    at = now - SLACK
    return {
        commit_id for commit_id, line in find_lines(graph, branches, rules, at).items() if line.is_active(at)
    }


OWN, TAGS = "own walk", "tags"
# More requests for dangling commits than this add a warning to the run.
_PLENTY = 20_000


class ActiveCommits(Struct):
    """The active commits, and the reasons."""

    metaranges: dict[str, str]  # metarange id by commit id, of all active commits; "" for no entries
    base: set[str]  # ids of the commits active without the kept sets
    kept: list[KeptSet]
    sources: dict[str, int]  # number of commits of each source
    all_commits: bool  # whether every commit is active, because there are no rules
    branches: list[Ref]
    tags: list[Ref]
    graph: Graph  # commits reachable from refs
    records: Graph = field(default_factory=dict)  # commits of the key-value store; empty without it
    rules: Rules | None = None  # the repository's; None without rules
    warnings: list[str] = field(default_factory=list)  # for the report

    @property
    def expired(self) -> list[Commit]:
        """Inactive commits reachable from refs, newest first."""
        found = [commit for commit_id, commit in self.graph.items() if commit_id not in self.metaranges]
        return sorted(found, key=lambda commit: commit.created_at, reverse=True)

    @property
    def path_commits(self) -> set[tuple[str, str]]:
        """(set name, commit id) of all sets about paths."""
        return {(found.name, commit) for found in self.kept if found.paths for commit in found.commits}

    def metarange_of(self, commit_id: str) -> str:
        """Metarange id of an active or reachable commit."""
        found = self.metaranges.get(commit_id)
        return self.graph[commit_id].metarange_id if found is None else found

    def kept_beyond_base(self, only: Collection[tuple[str, str]] | None = None) -> list[KeptSet]:
        """The kept sets without the commits of `base`, those about paths for the pairs in `only` alone; empty if
        every commit is active."""
        if self.all_commits:
            return []
        found = [replace(item, commits=item.commits - self.base) for item in self.kept]
        if only is None:
            return found
        asked = {
            item.name: {commit for name, commit in only if name == item.name} for item in found if item.paths
        }
        return [replace(item, commits=item.commits & asked.get(item.name, set())) for item in found]

    @property
    def dangling(self) -> set[str]:
        """Active commits not reachable from refs."""
        return self.metaranges.keys() - self.graph.keys()

    @property
    def heads(self) -> set[str]:
        """Commit ids of the branch heads."""
        return {branch.commit_id for branch in self.branches}


def find_active(
    run: Run,
    ask_dangling: bool = True,
    read: ReadCommits | None = None,
    rules: Future[Rules | None] | None = None,
) -> ActiveCommits:
    """Find every commit whose objects must stay, following the lines of young dangling commits if wanted; `read` and
    `rules` as in `find_history`."""
    found = find_history(run, read, rules)
    branches, graph, warnings = found.branches, found.graph, found.warnings
    sources: dict[str, set[str]] = {"heads": {branch.commit_id for branch in branches}}
    if found.all_commits:
        sources["all"] = set(graph)
    sources |= {name: set(listed) for name, listed in found.listed.items()}
    base = set[str]().union(*sources.values())
    dangling = _kept_by_dangling(run, found) if ask_dangling else {}
    kept = [
        *_by_own_walk(run, found, dangling),
        *_by_tags(run.plan, found.tags),
        *_by_policy(run.plan, branches, graph, warnings),
    ]
    sources |= {item.name: set(item.commits) for item in kept}
    active = base.union(*(item.commits for item in kept if not item.paths))
    known = dangling | graph
    metaranges = {commit: known[commit].metarange_id for commit in active if commit in known}
    for listed in found.listed.values():
        metaranges.update(listed)
    return ActiveCommits(
        metaranges=metaranges,
        base=base,
        kept=kept,
        sources={name: len(commits) for name, commits in sources.items()},
        all_commits=found.all_commits,
        branches=branches,
        tags=found.tags,
        graph=graph,
        records=found.records,
        rules=found.rules,
        warnings=warnings,
    )


def _by_own_walk(run: Run, found: Found, dangling: Graph) -> list[KeptSet]:
    if found.rules is None or SERVER not in found.listed:
        return []
    own = active_by_rules(found.graph, found.branches, found.rules, run.plan.created_at) | dangling.keys()
    if lost := own - found.listed[SERVER].keys():
        found.warnings.append(
            f"the server's walk omitted {len(lost)} commits that a young child keeps alive; they are kept"
        )
    return [KeptSet(OWN, "the server's walk over commits omitted them", frozenset(own))]


def _by_tags(plan: Plan, tags: list[Ref]) -> list[KeptSet]:
    if not plan.config.keep_tags:
        return []
    return [KeptSet(TAGS, "a tag is at their commit", frozenset(tag.commit_id for tag in tags))]


def _by_policy(plan: Plan, branches: list[Ref], graph: Graph, warnings: list[str]) -> list[KeptSet]:
    policy = plan.config.policy
    sets = []
    for keep in policy.keeps(branches, graph) if policy is not None else ():
        rule = keep.rule
        if not keep.branches:
            warnings.append(f"rule {rule.name!r} of the retention policy matches no branch")
        last = "all commits" if rule.last is None else f"the last {rule.last:,} commits"
        what = "some paths of " if rule.paths else ""
        why = f"a rule keeps {what}{last} of {len(keep.branches):,} branches"
        sets.append(KeptSet(f"policy: {rule.name}", why, keep.commits, rule.paths))
    return sets


def _kept_by_dangling(run: Run, found: Found) -> Graph:
    """Find the main parents of young dangling commits, which the server's walk may lose (L19).

        x ◀── old ✗            a walk that reaches x from the old commit first omits x. Our own walk over the lines of
         ▲                     branches finds x, unless no branch leads to the young commit
         └─── young ✗          but the young commit is in the server's list, so its parent can be requested

    Each such commit costs a request. They are usually few: merged commits are in the history of a branch. The key-value
    store has all commits, so with it no request is needed. A re-check follows no dangling commits: it subtracts the
    commits found by its mark, and the next mark finds commits that lost their branch, or are kept by longer rules.

    Lines are followed to their roots, because a commit may claim any date: a young one can be behind an old one.
    """
    if found.rules is None or SERVER not in found.listed:
        return {}
    known = found.records | found.graph
    waiting = sorted(found.listed[SERVER].keys() - known.keys())
    if len(waiting) > _PLENTY:
        found.warnings.append(
            f"{len(waiting):,} active commits without a ref need a request each; with lakeFS's own key-value store"
            " (kv_conn_id) no request is needed"
        )
    if waiting:
        log.info("run %s: reading %d active commits without a ref", run.plan.run_id, len(waiting))
    # Such lines have the default rule. Times are whole seconds, and clocks differ: in doubt a commit is young.
    at, days = run.plan.created_at - SLACK, found.rules.default_retention_days
    done, kept = set[str](), set[str]()
    for commit in ordered_map(lambda commit_id: _ask(run, commit_id), waiting, QUESTIONS):
        known[commit.id] = commit
    while waiting:
        commit_id = waiting.pop()
        done.add(commit_id)
        if commit_id not in known:
            _read_line(run, commit_id, known)
        parent = main_parent(known[commit_id])
        if parent is not None and until_after(known[commit_id].created_at, days) > at:
            kept.add(parent)
        if parent is not None and parent not in done:
            waiting.append(parent)
    return {commit_id: known[commit_id] for commit_id in kept if commit_id in known}


def _read_line(run: Run, commit_id: str, known: Graph) -> None:
    """Read a commit, and its line by pages until a known commit. A commit missing from a page is requested later."""
    known[commit_id] = _ask(run, commit_id)
    found: Graph = {}
    wanted = main_parent(known[commit_id])
    if wanted is None or wanted in known:
        return
    try:
        for commit in run.client.log(run.plan.repository, commit_id):
            found[commit.id] = commit
            while wanted in found:
                wanted = main_parent(found[wanted])
            if wanted is None or wanted in known:
                break
    except NotFoundError:
        log.info("run %s: lakeFS has no log of commit %s", run.plan.run_id, commit_id)
    known |= found


def _ask(run: Run, commit_id: str) -> Commit:
    about = f"the server's list of active commits leads to {commit_id}, which lakeFS does not have"
    return known_commit(run.client, run.plan.repository, commit_id, about)


def take_in_heads(run: Run, active: ActiveCommits, seen: Iterable[tuple[str, str]]) -> None:
    """Add the commits kept alive by the heads of the time when staging was read: (branch, commit) pairs.

    An entry can move from a head back into staging: its metadata is changed, or a change of it is reset, and the
    branch is reset to another commit, which leaves the staged entry. A scan before the move does not show the entry:
    the head had it, or a staged copy equal to the head's. Later heads do not have it either. The same holds for a
    commit behind a head, because another branch may be reset to it.
    """
    now = {(branch.id, branch.commit_id) for branch in active.branches}
    moved = [Ref(branch, commit) for branch, commit in sorted({*seen} - now)]
    if not moved:
        return
    graph = dict(active.graph)
    for ref in moved:
        if ref.commit_id in active.records:
            graph |= close_graph(active.records, [ref], run.plan.repository)
        elif ref.commit_id not in graph:
            _commit_of(run, f"branch {ref.id}", ref.commit_id)
            load_graph(run.client, run.plan.repository, [Ref(ref.commit_id, ref.commit_id)], graph)
    for commit_id in _kept_by(run, active, moved, graph) - active.metaranges.keys():
        active.metaranges[commit_id] = graph[commit_id].metarange_id


def take_in_tags(run: Run, active: ActiveCommits, seen: Iterable[Ref]) -> None:
    """Add the commits of tags from before staging was read.

    A branch can be reset to such a commit, get an entry of it into staging, and be reset back, which leaves the staged
    entry. An earlier scan does not show the entry, and after the deletion of the tag no later list has the commit.
    """
    for tag in seen:
        if tag.commit_id not in active.metaranges:
            known = active.graph.get(tag.commit_id) or active.records.get(tag.commit_id)
            commit = known or _commit_of(run, f"tag {tag.id}", tag.commit_id)
            active.metaranges[tag.commit_id] = commit.metarange_id


def _commit_of(run: Run, what: str, commit_id: str) -> Commit:
    about = (
        f"{what} was at commit {commit_id} when staging was read, and lakeFS does not have that commit now"
    )
    return known_commit(run.client, run.plan.repository, commit_id, about)


def _kept_by(run: Run, active: ActiveCommits, moved: list[Ref], graph: Graph) -> set[str]:
    rules = None if active.all_commits else run.client.rules(run.plan.repository)
    if rules is None:
        return set(graph)
    # Without the branches of now, their heads would be leaves, which have another rule.
    found = active_by_rules(graph, [*active.branches, *moved], rules, run.plan.created_at)
    policy = run.plan.config.policy
    for keep in policy.keeps(moved, graph) if policy is not None else ():
        found |= keep.commits
    return found
