"""The page of docs about errors, exit codes and the codes of a report, made from the code.

python -m tests.support.errors_page        writes docs/errors.md again; a test fails while it differs
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from dredge.causes import CAUSES
from dredge.errors import DredgeError
from dredge.gc.bulk_delete import why_kept
from dredge.gc.bulk_delete.sweep import CODES
from dredge.gc.subtract import REASONS
from dredge.gc.subtract.candidates import HOLDS
from dredge.runs.report import OUTCOMES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"

_PAGE = """# Errors and codes

This page is made from the code: `./run docs` writes it again.

## Errors

Every message begins with the event and ends with the action to take. Its *kind* is stable: it is in the last line of a
job (`dredge: refused: …`) and in `<step>/_FAILED.json` of a run's folder.

{errors}

An error that is not retried fails its task at once.

## Causes

The same cause gives the same kind of error from every client (of S3, Azure, Google, lakeFS, PostgreSQL and DynamoDB).
The message has the service's own code and text; a cause of the kind `config` is not retried.

{causes}

## Exit codes

Of `dredge` and of Spark's jobs:

{exits}

The codes of `dredge gc report` are about the run of the report: 0 success, a dry run or still running, 1 failed or
partly deleted, 3 refused, awaiting approval or rejected. Commands that answer a question, such as `dredge gc why`, end
with 1 when they find a fault; see `--help` of each.

## Outcomes of a run

{outcomes}

## Reasons for a deletion

The column *Kind* of a report, and `reason` in the ledger:

{reasons}

## Reasons to keep a candidate

`hold` and `code` in the ledger; the first that applies counts:

{kept}
"""


def page() -> str:
    return _PAGE.format(
        errors=_table(
            ("Kind", "Class", "Exit code", "Retried", "Meaning", "What to do"),
            (
                (
                    f"`{kind.kind}`",
                    f"`{kind.__name__}`",
                    str(kind.exit_code),
                    _yes(kind),
                    _first(kind),
                    kind.what_to_do,
                )
                for kind in _classes(DredgeError)
            ),
        ),
        causes=_table(
            ("Cause", "Kind", "Exit code", "Retried", "Meaning", "What to do"),
            (
                (
                    f"`{cause.name}`",
                    f"`{cause.family.kind}`",
                    str(cause.family.exit_code),
                    _yes(cause.family),
                    cause.meaning,
                    cause.what_to_do or cause.family.what_to_do,
                )
                for cause in CAUSES
            ),
        ),
        exits=_table(("Code", "Meaning"), exit_codes()),
        outcomes=_table(("Outcome", "Meaning"), ((f"`{name}`", text) for name, text in OUTCOMES.items())),
        reasons=_table(("Reason", "Meaning"), ((f"`{name}`", text) for name, text in REASONS.items())),
        kept=_table(
            ("Code", "Meaning"),
            [
                *((f"`{hold.code}`", hold.why) for hold in HOLDS),
                *((f"`{code}`", why_kept(code)) for code in CODES),
            ],
        ),
    )


def exit_codes() -> Iterator[tuple[str, str]]:
    found = {"0": "done", "1": "another error; also the end of `dredge` by Ctrl-C"}
    for kind in _classes(DredgeError):
        found.setdefault(str(kind.exit_code), _first(kind))
    found["10"] = "`dredge trash scan --exit-code`: trash was found"
    found["130"] = "a Spark job was interrupted; what it did stays, and the step can be run again"
    yield from sorted(found.items(), key=lambda item: int(item[0]))


def _classes(base: type[DredgeError]) -> Iterator[type[DredgeError]]:
    yield base
    for child in base.__subclasses__():
        if child.__module__ == DredgeError.__module__:
            yield from _classes(child)


def _yes(kind: type[DredgeError]) -> str:
    return "yes" if kind.is_retried else "no"


def _first(kind: type[DredgeError]) -> str:
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE, file=sys.stderr)


if __name__ == "__main__":
    main()
