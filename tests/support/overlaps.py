"""A branch written and read through a catalog, with an entry's checksum as its value."""

from lakefs_embedded.catalog import Catalog


def stage(catalog: Catalog, repository: str, path: str, value: str, branch: str = "main") -> None:
    catalog.objects.stage_object(
        repository, branch, path, physical_address=f"s3://elsewhere/{value}", checksum=value, size_bytes=1
    )


def listing(catalog: Catalog, repository: str, ref: str = "main") -> dict[str, str]:
    found: dict[str, str] = {}
    after = ""
    while True:
        page = catalog.reading.list_entries(repository, ref, after=after, amount=1000)
        found |= {stats.path: stats.checksum for stats in page.results}
        if not page.has_more:
            return found
        after = page.next_offset


def log_ids(catalog: Catalog, repository: str, ref: str = "main") -> list[str]:
    found: list[str] = []
    while True:
        page = catalog.commits.log(repository, ref, after=found[-1] if found else "", amount=1000)
        found += [commit.id for commit in page.results]
        if not page.has_more:
            return found
