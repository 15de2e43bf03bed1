"""The lakeFS client of a collector: complete listings, hidden branches, and strict reading of error responses."""

import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Self
from urllib.parse import urlsplit

from dredge.errors import ConfigError, FormatError, NotFoundError, RefusedError, UnavailableError
from dredge.lakefs.model import (
    Change,
    Commit,
    CommitText,
    Environment,
    ObjectStats,
    PreparedCommits,
    Ref,
    Repository,
    Rules,
    UncommittedPage,
    Usage,
)
from dredge.lakefs.prepare import prepare_commits
from dredge.lakefs.transport import (
    NO_CONTENT,
    NO_SUCH_CALL,
    Response,
    Transport,
    UnsupportedCallError,
    refuse,
)

PAGE = 1000
LOG_FIRST_PAGE = 50
# lakeFS's 404 messages for a missing path and a missing ref. Another 404 (the repository, the commit of the
# branch) says nothing about the path.
ABSENT_OBJECT = frozenset({"not found", "branch not found"})
ABSENT_BRANCH = frozenset({"branch not found"})
ABSENT_COMMIT = frozenset({"commit not found", "not found"})
# By default the server ends a page by size or after a minute, but a loaded server takes longer.
PREPARE_READ_SECONDS = 900.0

# The first server (October 2023) with all calls of a collection: the rules below `settings`, and the
# configuration with the version. Pages of prepare_uncommited exist since 0.85, the metarange of a prepared
# commit since 0.100. Source: lakeFS api/swagger.yml, pkg/graveler/retention/garbage_collection_manager.go, by
# their tags
OLDEST_SERVER = "0.111.0"

_PAGED = ("results", "pagination")
_DEFAULT_PORTS = {"http": 80, "https": 443}
ENDPOINT = "LAKECTL_SERVER_ENDPOINT_URL"
ACCESS_KEY = "LAKECTL_CREDENTIALS_ACCESS_KEY_ID"
SECRET_KEY = "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"
CA_BUNDLE = "DREDGE_LAKEFS_CA_BUNDLE"


class LakeFSClient:
    """The calls of a collector over HTTP; thread-safe. All raise errors of `dredge.errors`. `endpoint`: URL of the
    server, with or without `/api/v1`. `ca_bundle`: PEM file with certificate authorities to trust, in addition to those
    of the machine and the environment."""

    def __init__(
        self, endpoint: str, access_key_id: str, secret_access_key: str, ca_bundle: str | None = None
    ) -> None:
        self._settings = {ENDPOINT: endpoint, ACCESS_KEY: access_key_id, SECRET_KEY: secret_access_key}
        if ca_bundle is not None:
            self._settings[CA_BUNDLE] = ca_bundle
        self._transport = Transport(endpoint, access_key_id, secret_access_key, ca_bundle=ca_bundle)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Self:
        """Create a client from lakectl's environment variables; raises ConfigError if a variable is missing."""
        env = os.environ if environ is None else environ
        missing = [name for name in (ENDPOINT, ACCESS_KEY, SECRET_KEY) if not env.get(name)]
        if missing:
            raise ConfigError(
                f"the lakeFS connection is not configured: {', '.join(missing)} missing in the environment"
            )
        return cls(env[ENDPOINT], env[ACCESS_KEY], env[SECRET_KEY], env.get(CA_BUNDLE) or None)

    def to_env(self) -> dict[str, str]:
        """Return the variables with which `from_env` creates an equal client in a child process; they include the
        secret."""
        return dict(self._settings)

    def __repr__(self) -> str:
        return f"LakeFSClient({self._transport.server!r})"

    def clock(self) -> datetime | None:
        """Return the server's time from the Date of a response: aware UTC, rounded down to seconds; None without a
        valid Date.

        It uses a new connection, so that a load balancer may choose another server.
        """
        response = self._transport.call("GET", "/repositories", query={"amount": 1}, own_connection=True)
        if response.status != 200:
            raise refuse(response, "the first repository")
        try:
            found = parsedate_to_datetime(response.date)
        except ValueError:
            return None
        return found if found.tzinfo is not None else found.replace(tzinfo=UTC)

    def repositories(self) -> list[Repository]:
        """Return all repositories of the server."""
        return [_repository(item) for item in self._pages("/repositories", {}, {}, "repositories")]

    def repository(self, name: str) -> Repository:
        """Return a repository; raises NotFoundError, or RefusedError while it is being deleted."""
        what, members = f"repository {name}", ("id", "storage_namespace")
        return _repository(
            self._get("/repositories/{repository}", {"repository": name}, {}, what, members=members)
        )

    def branches(self, repository: str) -> list[Ref]:
        """Return all branches, including hidden ones, in name order."""
        what = f"branches of {repository}"
        path = "/repositories/{repository}/branches"
        return [
            _ref(item)
            for item in self._pages(path, {"repository": repository}, {"show_hidden": "true"}, what)
        ]

    def tags(self, repository: str) -> list[Ref]:
        """Return all tags."""
        path = "/repositories/{repository}/tags"
        return [
            _ref(item) for item in self._pages(path, {"repository": repository}, {}, f"tags of {repository}")
        ]

    def log(self, repository: str, ref: str) -> Iterator[Commit]:
        """Iterate over a ref's commit and all its ancestors, newest first; raises NotFoundError."""
        names = {"repository": repository, "ref": ref}
        path = "/repositories/{repository}/refs/{ref}/commits"
        # Most callers stop after a few commits, where they reach the history of another ref.
        pages = self._pages(path, names, {}, f"log of {ref}", LOG_FIRST_PAGE)
        return (_commit(item) for item in pages)

    def commit(self, repository: str, commit_id: str) -> Commit:
        """Return a commit. Raises NotFoundError: the record does not exist; FormatError: the answer is another commit.

        The server's commit cache can answer 404 for a full id although the record exists, until the entry expires; a
        prefix of the id is looked up without that cache.
        """
        path = "/repositories/{repository}/commits/{commit}"
        what = f"commit {commit_id} of {repository}"
        members = ("id", "parents", "creation_date", "meta_range_id")

        def ask(given: str) -> Commit:
            names = {"repository": repository, "commit": given}
            found = _commit(self._get(path, names, {}, what, ABSENT_COMMIT, members))
            # The call takes any name, also that of a branch, and older servers repeat what they were asked for.
            if found.id not in (given, commit_id):
                raise FormatError(f"{what}: lakeFS returned another commit, {found.id}. Nothing was deleted.")
            return found

        try:
            return ask(commit_id)
        except NotFoundError:
            if len(commit_id) != 64:
                raise
        found = ask(commit_id[:63])
        return replace(found, id=commit_id)

    def rules(self, repository: str) -> Rules | None:
        """Return the garbage collection rules; None if there are none."""
        names, path = {"repository": repository}, "/repositories/{repository}/settings/gc_rules"
        response = self._transport.call("GET", path, names=names, members=("default_retention_days",))
        if response.status == 200:
            value = response.json()
            branches = value.get("branches") or []  # the server writes null for none
            return Rules(
                int(value["default_retention_days"]),
                {item["branch_id"]: int(item["retention_days"]) for item in branches},
            )
        if response.status == 404 and response.message != NO_SUCH_CALL:
            self.repository(repository)  # a missing repository does not mean "no rules"
            return None
        raise refuse(response, f"rules of {repository}")

    def prepare_uncommitted(self, repository: str, token: str | None) -> UncommittedPage:
        """Have the server write a page of uncommitted addresses; without a token it starts a new scan.

        Retried if the server is busy: requesting a page twice only writes its file twice.
        """
        what = f"prepare_uncommitted of {repository}"
        response = self._transport.call(
            "POST",
            "/repositories/{repository}/gc/prepare_uncommited",
            names={"repository": repository},
            body={"continuation_token": token} if token else {},
            retry=True,
            read_seconds=PREPARE_READ_SECONDS,
            members=("run_id",),
        )
        if response.status != 201:
            raise refuse(response, what)
        value = response.json()
        if not value["run_id"]:
            raise FormatError(f"{what}: the response has no run id. Nothing was deleted.")
        return UncommittedPage(
            value["run_id"],
            value.get("gc_uncommitted_location") or "",
            value.get("continuation_token") or None,
        )

    def prepare_commits(self, repository: str, deadline_seconds: float) -> PreparedCommits | None:
        """Have the server compute the active commits; None if the repository has no rules. See `prepare`."""
        return prepare_commits(self._transport, repository, deadline_seconds)

    def usage(self) -> Usage | None:
        """Return the number of requests in the key-value store after the server has written it; None if the server does
        not support it. Older servers do not have the call.

        Source: lakeFS pkg/stats/usage_counter.go, pkg/api/controller.go (GetUsageReportSummary)
        """
        try:
            response = self._transport.call(
                "GET", "/usage-report/summary", members=("installation_id", "reports")
            )
        except (RefusedError, UnavailableError):
            return None
        if response.status != 200:
            return None
        value = response.json()
        try:
            requests = sum(int(item["count"]) for item in value["reports"] or [])
        except (KeyError, TypeError, ValueError):
            return None
        return Usage(str(value["installation_id"]), requests)

    def environment(self) -> Environment:
        """Return the server's identity: canonical URL, and id of the installation if the server has the usage report.

        Source: lakeFS pkg/api/controller.go (GetUsageReportSummary); no other call returns the id.
        """
        usage = self.usage()
        return Environment(
            normalized_url(self._transport.base), None if usage is None else usage.installation_id
        )

    def metadata(self, repository: str) -> Mapping[str, str] | None:
        """Return the metadata of a repository; None if the server lacks the call or the user the permission."""
        path = "/repositories/{repository}/metadata"
        try:
            response = self._transport.call("GET", path, names={"repository": repository})
        except UnsupportedCallError:
            return None
        if response.status == 200:
            return {str(key): str(value) for key, value in response.json().items()}
        if _is_missing(response):
            return None
        raise refuse(response, f"metadata of {repository}")

    def set_metadata(self, repository: str, values: Mapping[str, str]) -> bool:
        """Set keys in the metadata of a repository, and keep its other keys. Returns False if the server lacks the call
        or the user the permission.

        If two writers change it at the same time, lakeFS answers the loser with 500, and the request is retried. Keys
        are never deleted: without any key, a later import ends the server's process.

        Source: lakeFS pkg/api/controller.go (SetRepositoryMetadata), pkg/graveler/ref/manager.go
        """
        try:
            response = self._transport.call(
                "POST",
                "/repositories/{repository}/metadata",
                names={"repository": repository},
                body={"metadata": dict(values)},
                retry=True,
                no_content=True,
            )
        except UnsupportedCallError:
            return False
        if response.status in (200, 201, NO_CONTENT):
            return True
        if _is_missing(response):
            return False
        raise refuse(response, f"setting metadata of {repository}")

    def stat(self, repository: str, ref: str, path: str) -> ObjectStats:
        """Return the object at a path of a ref; raises NotFoundError if lakeFS says that path or ref does not exist."""
        names = {"repository": repository, "ref": ref}
        query = {"path": path, "user_metadata": "false"}
        where = "/repositories/{repository}/refs/{ref}/objects/stat"
        members = ("path", "physical_address", "checksum")
        return _stats(self._get(where, names, query, f"{path!r} on {ref}", ABSENT_OBJECT, members))

    def objects(self, repository: str, ref: str, after: str = "", amount: int = PAGE) -> list[ObjectStats]:
        """Return up to `amount` objects of a ref after a path, in path order; raises NotFoundError."""
        value = self._objects(repository, ref, after, amount)
        return [_stats(item) for item in value["results"] if item["path_type"] == "object"]

    def objects_page(
        self, repository: str, ref: str, after: str = "", amount: int = PAGE
    ) -> tuple[list[ObjectStats], bool]:
        """Return up to `amount` objects of a ref after a path, and whether more follow; raises NotFoundError."""
        value = self._objects(repository, ref, after, amount)
        return [_stats(item) for item in value["results"]], _has_more(value, f"objects of {ref}")

    def changes(self, repository: str, branch: str, amount: int = 100, after: str = "") -> list[Change]:
        """Return up to `amount` differences between a branch's staging area and its head after a path, in path order;
        raises NotFoundError if the branch does not exist."""
        names = {"repository": repository, "branch": branch}
        where = "/repositories/{repository}/branches/{branch}/diff"
        query = {"amount": amount, "after": after}
        value = self._get(where, names, query, f"changes of {branch}", ABSENT_BRANCH, _PAGED)
        return [Change(item["path"], item["type"]) for item in value["results"]]

    def version(self) -> str:
        """Return the server's version, "" if unknown. Raises ConfigError for a server older than `OLDEST_SERVER`."""
        response = self._transport.call("GET", "/config")
        if response.message == NO_SUCH_CALL:
            raise ConfigError(
                f"the server has no call /config, so it is older than lakeFS {OLDEST_SERVER}, the oldest supported"
                " version, or not a lakeFS server. Nothing was changed. Upgrade lakeFS, or correct the endpoint."
            )
        if response.status != 200:
            raise refuse(response, "configuration")
        return str((response.json().get("version_config") or {}).get("version", ""))

    def _objects(self, repository: str, ref: str, after: str, amount: int) -> Any:
        names = {"repository": repository, "ref": ref}
        query = {"after": after, "amount": amount, "user_metadata": "false"}
        where = "/repositories/{repository}/refs/{ref}/objects/ls"
        return self._get(where, names, query, f"objects of {ref}", ABSENT_OBJECT, _PAGED)

    def _get(
        self,
        path: str,
        names: Mapping[str, str],
        query: Mapping[str, Any],
        what: str,
        absent: Container[str] | None = None,
        members: Sequence[str] = (),
    ) -> Any:
        """Get a JSON object. `absent`: 404 messages that mean "it does not exist"; another 404 is refused. None accepts
        every 404 of lakeFS."""
        response = self._transport.call("GET", path, names=names, query=query, members=members)
        if response.status == 200:
            return response.json()
        error = refuse(response, what)
        if isinstance(error, NotFoundError) and absent is not None and response.message not in absent:
            raise RefusedError(f"{error}, which does not prove that it does not exist. Nothing was deleted.")
        raise error

    def _pages(
        self,
        path: str,
        names: Mapping[str, str],
        query: Mapping[str, Any],
        what: str,
        first_page: int = PAGE,
    ) -> Iterator[dict[str, Any]]:
        after, amount = "", first_page
        while True:
            paging = {**query, "amount": amount, "after": after}
            value = self._get(path, names, paging, what, members=_PAGED)
            amount = PAGE
            yield from value["results"]
            if not _has_more(value, what):
                return
            following = value["pagination"]["next_offset"]
            if not following or following == after:
                raise FormatError(
                    f"{what}: lakeFS says that more results follow, but gives no offset. Nothing was deleted."
                )
            after = following


def normalized_url(endpoint: str) -> str:
    """Return a server's URL in canonical form: lower case, without default port, user and `/api/v1`."""
    parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    scheme, host = parts.scheme.lower(), (parts.hostname or "").rstrip(".")
    host = f"[{host}]" if ":" in host else host
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(scheme)) else f":{parts.port}"
    path = parts.path.rstrip("/").removesuffix("/api/v1").rstrip("/")
    return f"{scheme}://{host}{port}{path}"


def _is_missing(response: Response) -> bool:
    """Whether the user has no right to a call, or the server does not have it. lakeFS answers a missing right with 401;
    wrong keys fail in the calls before."""
    return response.message == NO_SUCH_CALL or response.status in (401, 403, 405)


def _has_more(value: Mapping[str, Any], what: str) -> bool:
    """Whether more results follow a page; only an explicit false ends a listing."""
    found = value["pagination"]["has_more"]
    if not isinstance(found, bool):
        raise FormatError(
            f"{what}: a page does not say whether more results follow ({found!r}). Nothing was deleted."
        )
    return found


def _repository(value: Mapping[str, Any]) -> Repository:
    created = value.get("creation_date")
    return Repository(
        value["id"],
        value["storage_namespace"],
        value.get("default_branch", ""),
        bool(value.get("read_only")),
        None if created is None else datetime.fromtimestamp(created, UTC),
    )


def _ref(value: Mapping[str, Any]) -> Ref:
    return Ref(value["id"], value["commit_id"])


def _commit(value: Mapping[str, Any]) -> Commit:
    return Commit(
        id=value["id"],
        parents=tuple(value["parents"] or ()),
        created_at=datetime.fromtimestamp(value["creation_date"], UTC),
        metarange_id=value["meta_range_id"],
        version=int(value.get("version", 1)),
        text=_commit_text(value),
    )


def _commit_text(value: Mapping[str, Any]) -> CommitText | None:
    """None from a server that leaves the generation out: no equal record can be made."""
    if "generation" not in value:
        return None
    return CommitText(
        value.get("committer") or "",
        value.get("message") or "",
        value.get("metadata") or {},
        int(value["generation"]),
    )


def _stats(value: Mapping[str, Any]) -> ObjectStats:
    return ObjectStats(
        value["path"], value["physical_address"], value["checksum"], int(value.get("size_bytes") or 0)
    )
