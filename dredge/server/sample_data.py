"""The content of a repository that is created with sample data: a few small files and a table, in one commit."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq

from dredge.graveler.catalog import Catalog, Repository

MESSAGE = "Add sample data"
_PARQUET = "application/vnd.apache.parquet"
_README = """# {repository}

A repository with sample data. Branch `{branch}` is protected: work on a branch of your own and merge it.

    lakectl branch create lakefs://{repository}/try --source lakefs://{repository}/{branch}
    lakectl fs ls lakefs://{repository}/try/
    lakectl diff lakefs://{repository}/try

`tables/measurements.parquet` has a thousand rows: station, day, degrees.
"""


def add_sample_data(catalog: Catalog, repository: Repository, committer: str) -> None:
    """Fill a new repository and protect its default branch.

    Args:
        catalog: serves the repository.
        repository: the new repository.
        committer: name of the user.
    """
    name, branch = repository.name, repository.default_branch
    readme = _README.format(repository=name, branch=branch).encode()
    for path, content, content_type in (
        ("README.md", readme, "text/markdown"),
        ("stations.csv", _stations(), "text/csv"),
        ("tables/measurements.parquet", _measurements(), _PARQUET),
    ):
        catalog.objects.upload_object(name, branch, path, content, content_type=content_type)
    catalog.commits.commit(name, branch, committer=committer, message=MESSAGE)
    catalog.repositories.set_branch_protection(name, [branch])


def _stations() -> bytes:
    rows = [f"{number},station {number},{number * 35 % 900}" for number in range(1, 11)]
    return "\n".join(["station,name,metres", *rows, ""]).encode()


def _measurements() -> bytes:
    numbers = range(1000)
    table = pa.table(
        {
            "station": pa.array([number % 10 + 1 for number in numbers], pa.int32()),
            "day": pa.array([number // 10 for number in numbers], pa.int32()),
            "degrees": pa.array([round((number * 7919 % 400) / 10 - 10, 1) for number in numbers]),
        }
    )
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()
