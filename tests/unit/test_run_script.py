"""`./run`: its verbs are those that it and the README name, and its Airflow is ready before it is used."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.patches import patches
from tests.support.wording import in_code, in_page

ROOT = Path(__file__).resolve().parents[2]
AIRFLOW = """#!/bin/sh
printf '%s|%s|%s\\n' "$AIRFLOW_HOME" "$AIRFLOW__CORE__DAGS_FOLDER" "$*" >>"$CALLS"
case "$*" in "db migrate") exit "${MIGRATES:-0}" ;; esac
"""
JAVA = """#!/bin/sh
echo 'openjdk version "17.0.1"' >&2
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone whose environment is set up, as far as `./run` can see; its Airflow notes how it is called."""
    folder = tmp_path / "a clone"
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    shutil.copy(ROOT / "run", folder / "run")
    names = ("pyproject.toml", "uv.lock", ".python-version")
    for name in names:
        (folder / name).write_text(name)
    said = subprocess.run(["cksum"], input="".join(names), capture_output=True, text=True, check=True).stdout
    (folder / ".venv" / ".locked").write_text(said.strip())
    for name, text in (("airflow", AIRFLOW), ("python", "#!/bin/sh\n"), ("java", JAVA)):
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    return folder


def run(clone: Path, *words: str, **variables: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    calls = clone / "calls"
    calls.unlink(missing_ok=True)
    env = {
        "PATH": os.defpath,
        "HOME": str(clone / "no home"),
        "JAVA_HOME": str(clone / ".venv"),
        "CALLS": str(calls),
    }
    done = subprocess.run(
        [str(clone / "run"), *words], env=env | variables, capture_output=True, text=True, check=False
    )
    return done, calls.read_text().splitlines() if calls.exists() else []


def test_airflow_has_its_own_home_our_dags_and_a_database_before_it_is_used(clone: Path) -> None:
    where = f"{clone}/.dredge/airflow|{clone}/dags|"
    words = ("airflow", "dags", "test", "lakefs_gc", "-c", '{"repository": "my-repo"}')
    done, calls = run(clone, *words)
    asked = 'dags test lakefs_gc -c {"repository": "my-repo"}'
    assert (done.returncode, calls) == (0, [f"{where}db migrate", f"{where}{asked}"])
    assert "run: making Airflow's database" in done.stderr
    assert run(clone, *words)[1] == [f"{where}{asked}"], "made once"
    (clone / "uv.lock").write_text("another Airflow")
    (clone / ".venv" / ".locked").write_text(
        subprocess.run(
            "cat pyproject.toml uv.lock .python-version | cksum",
            shell=True,
            cwd=clone,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )
    assert len(run(clone, *words)[1]) == 2, "and again for another version"


def test_airflow_is_not_used_with_half_a_database(clone: Path) -> None:
    done, calls = run(clone, "airflow", "dags", "list", MIGRATES="1")
    assert done.returncode == 1
    assert "migrate.log" in done.stderr
    assert len(calls) == 1
    assert len(run(clone, "airflow", "dags", "list")[1]) == 2, "tried again"


def test_every_verb_is_explained_and_every_verb_that_the_readme_names_exists(clone: Path) -> None:
    script = (ROOT / "run").read_text()
    verbs = set(re.findall(r"^  ([a-z]+)\)", script.partition('case "$verb" in')[2], re.MULTILINE))
    explained = set(re.findall(r"^\./run ([a-z]+)", run(clone, "help")[0].stdout, re.MULTILINE))
    assert verbs == explained
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"\./run ([a-z]+)", readme)) <= verbs | {"help"}


@pytest.mark.parametrize(
    ("line", "is_counted"),
    [
        ("monkeypatch.setattr(gc, 'PAGE', 1)", True),
        ("patched.delattr('dredge.gc.PAGE')", True),
        ("mock.patch.object(gc, 'PAGE', 1)", True),
        ("setattr(gc.step, name, 1)", True),
        ("gc.step.PAGE = 1", True),
        ("kept, gc.PAGE = gc.PAGE, 1", True),
        ("mock.patch.dict(os.environ)", False),
        ("monkeypatch.setenv('NAME', '1')", False),
        ("world.page = gc.PAGE", False),
        ("gc.cache[0] = 1", False),
    ],
)
def test_places_of_tests_that_replace_parts_of_modules_are_counted(line: str, is_counted: bool) -> None:
    tree = ast.parse(f"from dredge import gc\n{line}\n")
    assert list(patches(tree)) == [2] * is_counted


def test_avoided_words_are_found_where_people_read_them() -> None:
    code = 'def told():\n    """It stands here all day."""  # anew\n    return "nobody looks at it", "gone"\n'
    assert sorted(in_code(code)) == [(2, "anew"), (2, "stands"), (3, "looks at"), (3, "nobody")]
    page = "What is\n```\nnobody\n```\n{% if gone %}\nsomebody\n"
    assert list(in_page(page)) == [(1, "What is"), (6, "somebody")]
