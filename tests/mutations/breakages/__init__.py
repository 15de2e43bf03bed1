"""Guards of the product, each broken in one line, and the tests that must notice.

reading    what is read              guarding   what may go           sweeping   what deletes, and what runs share
approving  what people say (approving_icechunk: of Icechunk)   undo       what can be taken back
records    what is read from the key-value store instead of the server
inventory  runs on an inventory      metadata   metadata garbage      many       many repositories
trash      the key-value store       icechunk   the collection of Icechunk   gcs, azure, deleting   stores
owner      one owner of a namespace, its id, and the block      witness    marks against earlier marks
again      what was deleted earlier      pending    what waits
verifying  the look after a sweep     gates      between a driver that looks and workers that delete
requests   what a run was asked to do
"""

from tests.mutations.breakages import (
    again,
    approving,
    approving_icechunk,
    azure,
    deleting,
    gates,
    gcs,
    guarding,
    icechunk,
    icechunk_past,
    icechunk_waiting,
    inventory,
    many,
    metadata,
    owner,
    pending,
    reading,
    records,
    requests,
    sweeping,
    trash,
    undo,
    verifying,
    witness,
)
from tests.mutations.breakages.breakage import Breakage

__all__ = ["BREAKAGES", "Breakage"]

BREAKAGES = (
    *reading.AGE_AND_PLACE,
    *reading.STAGED,
    *reading.COMMITTED,
    *records.RECORDS,
    *guarding.COMPARED,
    *guarding.ASKED,
    *guarding.HOLDS,
    *reading.OPTIMIZED,
    *approving.APPROVED,
    *approving_icechunk.APPROVED_ICECHUNK,
    *azure.AZURE,
    *deleting.DELETING,
    *gcs.GCS,
    *sweeping.SWEEP,
    *gates.GATES,
    *verifying.VERIFY,
    *inventory.INVENTORY,
    *many.MANY,
    *metadata.METADATA,
    *requests.REQUESTS,
    *owner.OWNER,
    *pending.PENDING,
    *undo.UNDO,
    *witness.WITNESS,
    *again.AGAIN,
    *trash.TRASH,
    *icechunk.ICECHUNK,
    *icechunk_past.ICECHUNK_PAST,
    *icechunk_waiting.ICECHUNK_WAITING,
)
