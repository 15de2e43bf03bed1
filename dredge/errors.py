"""The errors of Dredge, grouped by what the handler does about them.

    DredgeError
    ├── ConfigError        (ValueError)   the input is wrong: tell the user, nothing was touched
    ├── RefusedError                      a safety check said no: never retried
    │   ├── LeaseHeldError                another run holds the repository
    │   ├── OvertakenError                a later try of the same step has taken over
    │   ├── WitnessError                  the server is not the one that earlier runs saw
    │   ├── BlockedError                  such a refusal has to be lifted by a person first
    │   ├── AwaitingApprovalError         a person has to say yes first
    │   ├── RejectedError                 a person said no, or nobody said yes in time
    │   └── AlarmError                    live objects had been deleted: a person has to acknowledge it
    ├── UnavailableError                  throttled, down, timed out: retry later
    ├── FormatError                       bytes we cannot trust: abort, nothing more is deleted
    ├── NotFoundError      (LookupError)  the named thing is not there
    ├── ConflictError                     a precondition failed: someone else was first
    ├── DefectError                       Dredge itself is at fault: report it
    └── PartialError                      done in part: the rest needs a person, then the step again

Retry policies and exit codes name these families, not single classes. `kind` is stable: reports, metrics and
`--json` output carry it.
"""

from __future__ import annotations

from typing import ClassVar


class DredgeError(Exception):
    """Base of every error that Dredge raises on purpose.

    The message says what happened, on what, what state was left, and what to do.
    """

    kind: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    what_to_do: ClassVar[str] = "Read the message: it says what happened, what state is left and what to do."
    """One sentence for docs/errors.md; the message of an error says it for its case."""
    is_retried: ClassVar[bool] = False
    """Whether Airflow tries a task again that ends so: with the others, a retry would say the same."""


class ConfigError(DredgeError, ValueError):
    """The configuration or an argument is wrong; raised before anything is touched."""

    kind = "config"
    exit_code = 2
    what_to_do = "Correct what the message names, and start again or clear the task."


class RefusedError(DredgeError):
    """A safety check said no. Nothing (more) was deleted, and a retry would say the same."""

    kind = "refused"
    exit_code = 3
    what_to_do = (
        "Do not start the same again. The message and the report's findings name the check; "
        "docs/when-a-run-stops.md has each."
    )


class LeaseHeldError(RefusedError):
    """Another run works on the repository."""

    kind = "lease_held"
    what_to_do = (
        "Wait until the other run ends. The lease of a run that died passes by itself, at the time "
        "the message says."
    )

    def __init__(self, message: str, holder: str = "") -> None:
        super().__init__(message)
        self.holder = holder
        """Who has the lease; "" where that is not known."""


class OvertakenError(RefusedError):
    """A later try of the same step was begun, so this one no longer counts."""

    kind = "overtaken"
    what_to_do = "Nothing: the later try does the work. This one is the orphan of a retry."


class WitnessError(RefusedError):
    """The lakeFS server or its database is not the one that earlier runs of the namespace saw."""

    kind = "witness"
    what_to_do = (
        "Find out which lakeFS server and database this is: the message names the difference and the likely causes. "
        "docs/owner.md has each; `dredge gc lift-block` ends the block that the refusal left."
    )


class BlockedError(RefusedError):
    """An earlier run left a block in the namespace: deletions and purges wait until a person lifts it."""

    kind = "blocked"
    what_to_do = (
        "Read the block in the message and find its cause. Then lift it with "
        "`dredge gc lift-block REPOSITORY --reason …`, and start a new run."
    )


class AwaitingApprovalError(RefusedError):
    """A person has to approve before anything is deleted."""

    kind = "awaiting_approval"
    what_to_do = (
        "Look at what would go; then approve or reject, under *Required Actions* or by `approve` and "
        "`reject` of `dredge gc` or `dredge icechunk`."
    )


class RejectedError(RefusedError):
    """A person said no, or nobody said yes in time. It stays that way: another run asks again."""

    kind = "rejected"
    what_to_do = "Nothing, or change the limits or the rules, and start another run."


class AlarmError(RefusedError):
    """Live objects are among those that an earlier run deleted, and no expired commit explains it. They were brought
    back where that is possible. Nothing is deleted or purged until a person acknowledges it."""

    kind = "alarm"
    exit_code = 10
    what_to_do = (
        "Find out why the run that the message names took live objects for garbage (docs/restore.md); bring back "
        "what is missing, then acknowledge: `dredge gc acknowledge REPOSITORY --reason`."
    )


class UnavailableError(DredgeError):
    """A service is throttled, down or too slow; the same call may work later."""

    kind = "unavailable"
    exit_code = 4
    is_retried = True
    what_to_do = (
        "Wait, or see to the service that the message names; Airflow tries again by itself. A step "
        "goes on where it stopped."
    )


class FormatError(DredgeError):
    """Bytes that cannot be trusted. What was read so far must be thrown away."""

    kind = "format"
    exit_code = 5
    what_to_do = (
        "Do not force it. The message names the file: restore it, or start a clean run, which reads "
        "everything anew."
    )


class NotFoundError(DredgeError, LookupError):
    """The named object, key or record does not exist."""

    kind = "not_found"
    exit_code = 6
    what_to_do = "Check the name. If an object of lakeFS's own is gone, see to that first."


class ConflictError(DredgeError):
    """A precondition of a conditional write did not hold."""

    kind = "conflict"
    exit_code = 7
    is_retried = True
    what_to_do = "Run the step again: it looks anew."


class DefectError(DredgeError):
    """Something went wrong that nobody foresaw: an exception from outside this tree, which is its cause."""

    kind = "defect"
    exit_code = 8
    is_retried = True
    what_to_do = (
        "Report it, with the log and the run's folder. The step may be run again; nothing is deleted "
        "without its proofs."
    )


class PartialError(DredgeError):
    """Something was deleted or changed, and the rest could not be: a retry would end the same until somebody
    mends what the message names. Run again after that, the step does only the rest."""

    kind = "partial"
    exit_code = 9
    what_to_do = (
        "See to what the message names, such as objects that the store refuses to delete; then run "
        "the step again: it does the rest."
    )
