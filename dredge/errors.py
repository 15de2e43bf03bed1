"""The errors of Dredge, grouped by the reaction of the handler.

    DredgeError
    ├── ConfigError        (ValueError)   wrong input: show it to the user, nothing was changed
    ├── RefusedError                      a safety check failed: never retried
    │   ├── LeaseHeldError                another run has the lease
    │   ├── OvertakenError                a later try of the same step has taken over
    │   ├── WitnessError                  another server or database than that of earlier runs
    │   ├── BlockedError                  a person must lift the block of such a refusal first
    │   ├── AwaitingApprovalError         a person must approve first
    │   ├── RejectedError                 rejected by a person, or not approved in time
    │   └── AlarmError                    live objects had been deleted: a person must acknowledge it
    ├── UnavailableError                  throttled, down, timed out: retry later
    ├── FormatError                       damaged bytes: abort, nothing more is deleted
    ├── NotFoundError      (LookupError)  an object, key or record does not exist
    ├── ConflictError                     a precondition failed: another process was first
    ├── DefectError                       an error in Dredge: report it
    └── PartialError                      partly done: the rest needs a person, then a retry

Retry policies and exit codes name these families, not single classes. `kind` is stable: reports, metrics and
`--json` output carry it.
"""

from typing import ClassVar


class DredgeError(Exception):
    """Base of every intended error of Dredge.

    The message has the event, the object, the present state, and the action to take.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    # One sentence for docs/errors.md; the message of an error has it for its case.
    what_to_do: ClassVar[str] = (
        "Read the message: it has the event, the state that is left and the action to take."
    )
    # Whether Airflow retries the task; after other errors a retry has the same result.
    is_retried: ClassVar[bool] = False


class ConfigError(DredgeError, ValueError):
    """The configuration or an argument is wrong; raised before anything is changed."""

    kind = "config"
    exit_code = 2
    what_to_do = "Correct the input named in the message, and start again or clear the task."


class RefusedError(DredgeError):
    """A safety check failed. Nothing (more) was deleted, and a retry has the same result."""

    kind = "refused"
    exit_code = 3
    what_to_do = (
        "Do not repeat the run unchanged. The message and the report's findings name the check; "
        "docs/when-a-run-stops.md describes each."
    )


class LeaseHeldError(RefusedError):
    """Another run works on the repository."""

    kind = "lease_held"
    what_to_do = (
        "Wait until the other run ends. If that run crashed, its lease expires at the time in the message."
    )

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder
        """Holder of the lease; "" if not known."""


class OvertakenError(RefusedError):
    """A later try of the same step has started; this one is obsolete."""

    kind = "overtaken"
    what_to_do = (
        "Nothing: the later try does the work. This process belongs to a try that Airflow had given up."
    )


class WitnessError(RefusedError):
    """The lakeFS server or its database differs from earlier runs in the namespace."""

    kind = "witness"
    what_to_do = (
        "Find out which lakeFS server and database this is: the message has the difference and the likely "
        "causes (docs/owner.md). Then `dredge gc lift-block` ends the block."
    )


class BlockedError(RefusedError):
    """An earlier run left a block in the namespace: nothing is deleted or purged until a person lifts it."""

    kind = "blocked"
    what_to_do = (
        "Read the block in the message and find its cause. Then lift it with "
        "`dredge gc lift-block REPOSITORY --reason …`, and start a new run."
    )


class AwaitingApprovalError(RefusedError):
    """A person has to approve before anything is deleted."""

    kind = "awaiting_approval"
    what_to_do = (
        "Read the list of candidates; then approve or reject, under *Required Actions* or with `approve` and "
        "`reject` of `dredge gc` or `dredge icechunk`."
    )


class RejectedError(RefusedError):
    """A person rejected the run, or the time for an approval is over. The next run asks again."""

    kind = "rejected"
    what_to_do = "Nothing, or change the limits or the rules, and start another run."


class AlarmError(RefusedError):
    """An earlier run deleted live objects, without an expired commit as the reason.

    They were restored where possible. Nothing is deleted or purged until a person acknowledges the alarm.
    """

    kind = "alarm"
    exit_code = 10
    what_to_do = (
        "Find out why the run in the message deleted live objects (docs/restore.md); restore missing objects, "
        "then acknowledge: `dredge gc acknowledge REPOSITORY --reason`."
    )


class UnavailableError(DredgeError):
    """A service is throttled, down or too slow; the same call may work later."""

    kind = "unavailable"
    exit_code = 4
    is_retried = True
    what_to_do = "Wait, or repair the service named in the message; Airflow retries. A step continues where it stopped."


class FormatError(DredgeError):
    """Damaged bytes. Results read so far must be discarded."""

    kind = "format"
    exit_code = 5
    what_to_do = "Restore the file named in the message, or start a clean run, which reads everything again."


class NotFoundError(DredgeError, LookupError):
    """The named object, key or record does not exist."""

    kind = "not_found"
    exit_code = 6
    what_to_do = "Check the name. If an object of lakeFS itself is missing, restore that first."


class ConflictError(DredgeError):
    """A precondition of a conditional write did not hold."""

    kind = "conflict"
    exit_code = 7
    is_retried = True
    what_to_do = "Run the step again: it reads the current state."


class DefectError(DredgeError):
    """An unexpected exception from outside this tree, with the original as its cause."""

    kind = "defect"
    exit_code = 8
    is_retried = True
    what_to_do = "Report it, with the log and the folder of the run. The step can run again without risk."


class PartialError(DredgeError):
    """Some objects were deleted or changed, others were not.

    A retry has the same result until the cause in the message is removed; then the step does only the rest.
    """

    kind = "partial"
    exit_code = 9
    what_to_do = (
        "Remove the cause named in the message, such as missing permissions; then run the step again: it does the "
        "rest."
    )
