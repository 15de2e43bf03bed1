"""A question that is asked of a store again and again."""

from __future__ import annotations

from dredge.errors import NotFoundError
from dredge.storage.model import ObjectReader


def exists(reader: ObjectReader, key: str) -> bool:
    """Whether a store has an object. One that it will not describe raises, as `stat` does: that is no answer.

    Args:
        reader: where to look.
        key: the object's name.
    """
    try:
        reader.stat(key)
    except NotFoundError:
        return False
    return True
