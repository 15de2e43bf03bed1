"""Words avoided in Dredge, counted in code and docs: `python -m tests.support.wording`.

A reader familiar with lakeFS, Airflow and Spark should understand each sentence at the first reading, so a sentence has
a noun as its subject and standard terms. The words below indicate sentences without. `MOST` only decreases;
`./run check` fails above it.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = ("dredge", "lakefs_embedded", "operators", "spark_jobs", "dags", "plugins", "demo", "benchmarks")
MOST = {"code": 25, "pages": 20}
"""Avoided words that may be left in docstrings, comments and texts of the code, and in Markdown and templates."""

AVOIDED = re.compile(
    r"\b(tells?|told|stands?|stood|whoever|whatever|nobody|somebody|anybody|anew|afresh|by now|lies|lay|goes|went|gone"
    r"|came|comes? back|brought back|to know|looks? at|looks? again|looked at|looking at|put back|let go|lets? those go"
    r"|tak(?:e|es|ing|en) back|for good|of its own|at work|dead|named by|names it|what is|what was|what it|where it"
    r"|who has|who is|as ever|besides|thereby|hence|likewise|kin|at hand|by and by|wherein)\b",
    re.IGNORECASE,
)
_MARKUP = re.compile(r"```.*?```|\{%.*?%\}|\{\{.*?\}\}|<[^>]*>", re.DOTALL)


def avoided(text: str) -> Iterator[tuple[int, str]]:
    """Yield line (from 1) and word of each avoided word of a text."""
    for match in AVOIDED.finditer(text):
        yield 1 + text.count("\n", 0, match.start()), match[0]


def in_code(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and word of each avoided word in docstrings, comments and texts of more than three words."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], word) for _, word in avoided(token.string))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.count(" ") > 2:
            yield from ((node.lineno + line - 1, word) for line, word in avoided(node.value))


def in_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield line and word of each avoided word of a Markdown page or a template, outside code and markup."""
    return avoided(_MARKUP.sub(lambda match: "\n" * match[0].count("\n"), text))


def _found() -> Iterator[tuple[str, str]]:
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.j2"], capture_output=True, text=True, cwd=ROOT, check=True
    )
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if name.endswith("_pb2.py") or not path.exists():
            continue
        if path.suffix != ".py":
            yield from (("pages", f"{name}:{line} {word}") for line, word in in_page(path.read_text()))
        elif name.partition("/")[0] in CODE:
            yield from (("code", f"{name}:{line} {word}") for line, word in in_code(path.read_text()))


def main() -> None:
    found = list(_found())
    if "--list" in sys.argv:
        print(*(f"{place}" for _, place in found), sep="\n")
    for kind, most in MOST.items():
        count = sum(found_kind == kind for found_kind, _ in found)
        if count > most:
            sys.exit(
                f"{count} avoided words in {kind}; at most {most} may be left: write the sentence with a noun as its"
                " subject and standard terms (python -m tests.support.wording --list shows the places)"
            )


if __name__ == "__main__":
    main()
