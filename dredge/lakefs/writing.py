"""The client for commits and branches: only for `dredge gc lost --apply`.

A request is sent once and its result is read back, because a retry after a lost response could make a second commit.
"""

from dredge.errors import FormatError, NotFoundError
from dredge.lakefs.client import LakeFSClient
from dredge.lakefs.model import Commit, Ref
from dredge.lakefs.transport import (
    NO_CONTENT,
    NO_SUCH_CALL,
    ForeignResponseError,
    UnsupportedCallError,
    refuse,
)


class LakeFSWriter(LakeFSClient):
    """The calls of a collector, and the calls for lost commits."""

    def branch(self, repository: str, name: str) -> Ref:
        """Return a branch; raises NotFoundError."""
        path = "/repositories/{repository}/branches/{branch}"
        names, what = {"repository": repository, "branch": name}, f"branch {name} of {repository}"
        response = self._transport.call("GET", path, names=names, members=("id", "commit_id"))
        if response.status != 200:
            raise refuse(response, what)
        value = response.json()
        return Ref(value["id"], value["commit_id"])

    def create_branch(self, repository: str, name: str, source: str) -> Ref:
        """Create a branch; raises ConflictError if it exists."""
        try:
            response = self._transport.call(
                "POST",
                "/repositories/{repository}/branches",
                names={"repository": repository},
                body={"name": name, "source": source},
            )
        except ForeignResponseError as error:
            if error.status != 201:  # lakeFS answers with the bare commit id
                raise
        else:
            if response.status != 201:
                raise refuse(response, f"creating branch {name} of {repository}")
        return self.branch(repository, name)

    def create_commit_record(self, repository: str, commit: Commit) -> bool:
        """Write the record of a commit with its old id; returns whether the server has it afterwards.

        Source: lakeFS pkg/api/controller.go (CreateCommitRecord)
        """
        text = commit.text
        if text is None:
            return False
        body = {
            "commit_id": commit.id,
            "version": commit.version,
            "committer": text.committer,
            "message": text.message,
            "metarange_id": commit.metarange_id,
            "creation_date": int(commit.created_at.timestamp()),
            "parents": list(commit.parents),
            "metadata": dict(text.metadata),
            "generation": text.generation,
        }
        try:
            response = self._transport.call(
                "POST",
                "/repositories/{repository}/commits",
                names={"repository": repository},
                body=body,
                no_content=True,
            )
        except UnsupportedCallError:
            return False
        if response.status == 400 or response.message == NO_SUCH_CALL:
            return False
        if response.status not in (200, 201, NO_CONTENT, 409):
            raise refuse(response, f"record of commit {commit.id} of {repository}")
        try:
            return self.commit(repository, commit.id).metarange_id == commit.metarange_id
        except NotFoundError:
            raise FormatError(
                f"commit {commit.id} of {repository}: lakeFS accepted the record, but does not return it."
            ) from None

    def commit_metarange(self, repository: str, branch: str, metarange_id: str, message: str) -> str:
        """Commit the content of a metarange file on a branch without staged changes; returns the commit's id."""
        response = self._transport.call(
            "POST",
            "/repositories/{repository}/branches/{branch}/commits",
            names={"repository": repository, "branch": branch},
            query={"source_metarange": metarange_id},
            body={"message": message},
            members=("id", "meta_range_id"),
        )
        if response.status != 201:
            raise refuse(response, f"commit of metarange {metarange_id} on {branch} of {repository}")
        value = response.json()
        if value["meta_range_id"] != metarange_id:
            raise FormatError(
                f"commit {value['id']} on {branch} of {repository} has metarange {value['meta_range_id']} instead of"
                f" {metarange_id}: this server does not support commits of a metarange."
            )
        return str(value["id"])
