"""What the branches of a referring repository have staged, as keys of the namespace that is collected.

lakeFS's scan of staging shows no address outside the scanned repository's namespace, so it tells nothing here. The
staging records of the key-value store have everything. Where they are not read, or prove nothing, each branch is asked
for its changes, and each changed path for its address.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from dredge.errors import RefusedError
from dredge.gc.mark_uncommitted import (
    BranchReader,
    StagedFiles,
    TooManyError,
    UnreadableError,
    read_records,
)
from dredge.gc.referring.repositories import ReferringRun
from dredge.lakefs import Ref
from dredge.sets.hashes import NONE

_QUESTIONS_AT_ONCE = 16


def read_staged(run: ReferringRun, branches: Collection[Ref], files: StagedFiles) -> None:
    """Read everything that is staged and lies in the namespace that is collected.

    Args:
        run: on the referring repository.
        branches: of it.
        files: takes the addresses.

    Raises:
        RefusedError: the changes of a branch cannot be read to their end, or are too many to ask for.
    """
    if run.plan.config.read_kv and not read_records(run, files, NONE).standing.doubt:
        return
    most = run.plan.config.safety.staged_questions_max
    reader = BranchReader(run, NONE)
    reader.bound(most)
    try:
        with ThreadPoolExecutor(_QUESTIONS_AT_ONCE) as pool:
            for branch in branches:
                reader.take_all(pool, branch.id, "")
    except UnreadableError as error:
        raise RefusedError(f"{error}.") from None
    except TooManyError:
        raise RefusedError(
            f"its branches have more uncommitted changes than {most:,} questions tell about. Commit them, raise"
            " staged_questions_max, or name lakeFS's own key-value store (kv_conn_id)."
        ) from None
    if reader.addresses:
        files.write(pa.array(sorted(reader.addresses), pa.string()))
