"""A person accepts the state of a repository that the witnesses refuse."""

from __future__ import annotations

from datetime import timedelta

from dredge.icechunk.collection.mark import snapshot_files
from dredge.icechunk.collection.witness.judging import FORGET_LOST, Judgement, judge
from dredge.icechunk.collection.witness.record import read_known
from dredge.icechunk.maintenance import open_state
from dredge.icechunk.repository import read_history
from dredge.runs.consents import check_reason, read_consents, record_consent
from dredge.storage import StorageOptions, open_reader, store_clock


def ask_witnesses(uri: str, options: StorageOptions | None = None) -> Judgement:
    """Ask which tips were lost, and what the next run would refuse. Changes nothing.

    Args:
        uri: the repository.
        options: None reads the environment.

    Raises:
        NotFoundError: no repository.
        FormatError: a file that matters cannot be trusted.
        RefusedError: main or the repo info is missing, or a copy of a later repo info is there.
    """
    reader, state = open_reader(uri, options), open_state(uri, options)
    history = read_history(reader)
    return judge(
        reader,
        history,
        dict(snapshot_files(reader)),
        read_known(state)[0],
        read_consents(state, FORGET_LOST),
        run_id="",
        now=store_clock(state, ""),
        keep=timedelta.max,
    )


def forget_lost(
    uri: str, why: str, who: str | None = None, options: StorageOptions | None = None
) -> list[str]:
    """Write down that a person wants the state that the witnesses refuse.

    Args:
        uri: the repository.
        why: the reason, in the person's words; kept.
        who: None is the login name of this process.
        options: None reads the environment.

    Returns:
        What was accepted, in words; [] when nothing is refused.

    Raises:
        ConfigError: there is no reason.
        DredgeError: see `ask_witnesses`.
    """
    reason = check_reason(why)
    found, state = ask_witnesses(uri, options), open_state(uri, options)
    for refusal in found.refusals:
        record_consent(state, FORGET_LOST, uri, reason, refusal.what, who)
    return [refusal.message for refusal in found.refusals]
