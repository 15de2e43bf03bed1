"""What both users of obstore need: whether this process may use it, and its errors in our words."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from dredge.errors import ConfigError, ConflictError, DredgeError, NotFoundError, UnavailableError
from dredge.storage.redact import redact

CONNECT_SECONDS = 10
READ_SECONDS = 60

_usable = True


def usable() -> bool:
    """Whether obstore works in this process: in a child forked after it was loaded it hangs for ever."""
    return _usable


def _after_fork() -> None:
    global _usable
    _usable = _usable and "obstore" not in sys.modules


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def translated_native(doing: str) -> Iterator[None]:
    """Raise our families instead of obstore's errors, unchained: their text may show request details."""
    from obstore import exceptions

    try:
        yield
    except FileNotFoundError as error:
        if "NoSuchBucket" in str(error):
            raise ConfigError(f"{doing}: there is no such bucket; check URI and endpoint.") from None
        raise NotFoundError(f"{doing}: there is no such object") from None
    except (exceptions.BaseError, ValueError) as error:
        raise family_of(error, redact(f"{doing}: {error}")) from None


def family_of(error: Exception, words: str) -> DredgeError:
    """Choose the family of an obstore error."""
    from obstore import exceptions

    if isinstance(error, exceptions.AlreadyExistsError | exceptions.PreconditionError):
        return ConflictError(words)
    if isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError):
        return ConfigError(f"{words}. Check the credentials, their rights, and the endpoint.")
    if isinstance(error, ValueError | exceptions.InvalidPathError | exceptions.UnknownConfigurationKeyError):
        return ConfigError(words)
    return UnavailableError(words)
