"""A secret planted by a test in connections, and its forbidden places."""

import traceback
from collections.abc import Callable
from pathlib import Path

SECRET = "s3cr3tword"

#: Passwords with each character that ends a password early if it is not percent-encoded.
AWKWARD = tuple(f"{SECRET}{sign}x" for sign in "/#?@[]% \n:\\'\"=&+;,") + tuple(
    f"x{sign}{SECRET}" for sign in "/#?@[]% :"
)


def failure_of(do: Callable[[], object]) -> BaseException | None:
    """Call, and return the exception; None without one."""
    try:
        do()
    except Exception as error:
        return error
    return None


def words_of(error: BaseException) -> str:
    """The text of an exception for a log or a report: text, arguments, and its logged chain."""
    return "\n".join([str(error), repr(error), repr(error.args), *traceback.format_exception(error)])


def files_with_secret(folder: Path) -> list[str]:
    """Name the files below a folder whose bytes have the secret."""
    return [
        path.name for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
