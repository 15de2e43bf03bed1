"""Whether a store writes under conditions: what keeps two runs apart rests on that."""

from __future__ import annotations

from dredge.errors import ConfigError, ConflictError, RefusedError
from dredge.storage.clock import PROBE
from dredge.storage.model import ObjectWriter


def demand_conditions(writer: ObjectWriter) -> None:
    """Refuse a store that takes no notice of the condition that an object must not exist.

    Args:
        writer: of the folder whose clock was just asked for (`store_clock`), so that its probe is there.

    Raises:
        RefusedError: the store wrote all the same, or knows no such request.
    """
    try:
        writer.put_if_absent(PROBE, b"A store that has this instead of the probe knows no conditions.\n")
    except ConflictError:
        return
    except ConfigError as error:
        if error.kind != ConfigError.kind or "NotImplemented" not in str(error):
            raise
    raise RefusedError(
        f"{writer.uri}: this store does not keep the condition that an object must not exist (If-None-Match, or"
        " ifGenerationMatch). The lease, the state and the tries of a run rest on it: two runs at once could delete by"
        " each other's plans. Nothing was deleted. Use a version of the store with conditional writes."
    )
