"""Who may import whom, as contracts in pyproject.toml, held by import-linter."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_below_airflow_dredge_is_imported_by_that_name_only() -> None:
    """By the name of its folder it would be a second module, and in a wheel there is none of that name."""
    plain = {"operators", "spark_jobs", "dags", "plugins"}
    assert {path.name for path in (ROOT / "airflow_dredge").iterdir() if path.is_symlink()} == plain
    pattern = re.compile(rf"^ *(?:from|import) ({'|'.join(plain)})\b", re.MULTILINE)
    others = ROOT / "tests/system/test_wheel.py"  # has another project's operators
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("dredge", "lakefs_embedded", *plain, "demo", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if path != others
        for name in pattern.findall(path.read_text())
    }
    assert found == set(), "write airflow_dredge.operators for operators, and so on"


def test_only_the_sweeps_open_a_deleter() -> None:
    # The one of own files takes no other names; tests/unit/gc/save_report/test_clean_up.py.
    allowed = {
        "dredge/storage/",
        "dredge/gc/bulk_delete/sweep.py",
        "dredge/runs/cleanup.py",
        "dredge/undo/leftovers.py",  # below the quarantine of a run only
        "dredge/icechunk/collection/deleting.py",
        "dredge/icechunk/expiration/restore.py",  # copies of the repo info that the restored expiration left
    }
    openers = [
        path.relative_to(ROOT).as_posix()
        for folder in ("dredge", "operators", "spark_jobs", "dags")
        for path in (ROOT / folder).rglob("*.py")
        if "open_deleter" in path.read_text()
    ]
    assert "dredge/gc/bulk_delete/sweep.py" in openers
    strangers = [path for path in openers if not any(path.startswith(place) for place in allowed)]
    assert strangers == []


@pytest.mark.parametrize(
    ("door", "users"),
    [
        ("open_marker_remover", {"dredge/undo/putting_back.py"}),
        ("open_old_version_deleter", {"dredge/undo/leftovers.py"}),
        ("open_exact_version_deleter", {"dredge/gc/metadata/deleting.py"}),
        (
            "open_copier",
            {
                "dredge/gc/metadata/deleting.py",
                "dredge/undo/putting_back.py",
                "dredge/undo/protecting.py",
                "dredge/undo/ways.py",
            },
        ),
    ],
)
def test_only_the_undo_is_handed_what_changes_versions_or_copies(door: str, users: set[str]) -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dredge", "operators", "spark_jobs", "dags")
        for path in (ROOT / folder).rglob("*.py")
        if door in path.read_text()
    }
    assert {path for path in found if not path.startswith("dredge/storage/")} == users


def test_only_the_end_of_a_run_is_handed_the_deleter_of_own_files() -> None:
    users = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dredge", "operators", "spark_jobs", "dags")
        for path in (ROOT / folder).rglob("*.py")
        if "OwnFilesDeleter" in path.read_text() or "own_files_deleter" in path.read_text()
    }
    assert users == {
        "dredge/gc/save_report/clean_up.py",
        "dredge/icechunk/collection/own_files.py",
        "dredge/runs/cleanup.py",
        "dredge/trash/state.py",
    }


def test_operators_see_the_collector_through_its_steps_its_config_and_its_many_runs_only() -> None:
    """Else a step that is rebuilt inside has to be rebuilt in its operator, too."""
    allowed = {("dredge.gc", "steps"), "dredge.gc.steps", "dredge.gc.config"}
    allowed |= {"dredge.gc.many"}
    found = set()
    for folder in ("operators", "dags"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[:2] == [
                    "dredge",
                    "gc",
                ]:
                    names = {(node.module, alias.name) for alias in node.names}
                    found |= {node.module} if node.module != "dredge.gc" else names
    assert found <= allowed
    assert "dredge.gc.steps" in found


def test_operators_load_the_steps_of_a_collection_when_they_do_one() -> None:
    """Every task of every DAG, and every look at the DAG files, reads the files of all operators."""
    steps = ("dredge.icechunk.collection.", "dredge.trash.steps", "dredge.gc.metadata")
    found = {
        f"{path.relative_to(ROOT)}: {node.module}"
        for folder in ("operators", "dags", "plugins")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(steps)
    }
    assert {line for line in found if not line.endswith("config")} == set()


def test_only_the_compiler_imports_kernels() -> None:
    importers = {
        name
        for name, imported in _imports().items()
        for module in imported
        if module.startswith("dredge.kernels.") and module != "dredge.kernels.interface"
    }
    assert {name for name in importers if not name.startswith("dredge.kernels.")} == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    """An import inside a function or for types counts too: what needs it cannot be read alone."""
    imports = _imports()
    while leaves := [name for name, imported in imports.items() if not imported & imports.keys()]:
        for name in leaves:
            del imports[name]
    # What is left is in a circle, or imports something that is.
    assert {name: sorted(imported & imports.keys()) for name, imported in imports.items()} == {}


def _imports() -> dict[str, set[str]]:
    """Every module of ours with the modules of ours that it names in an import, wherever that stands."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for folder in ("dredge", "lakefs_embedded", "airflow_dredge/operators", "airflow_dredge/spark_jobs")
        for path in sorted((ROOT / folder).rglob("*.py"))
    }
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        named: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{name} imports by a relative name"
                whole = [f"{node.module}.{alias.name}" for alias in node.names]
                named |= {module if module in files else str(node.module) for module in whole}
        found[name] = (named & files.keys()) - {name}
    return found


@pytest.mark.parametrize("collector", ["dredge/gc"])
def test_the_room_of_another_step_is_entered_by_its_package(collector: str) -> None:
    """What lies behind the package's names may change without anybody else knowing; only `steps` gathers all."""
    folder = ROOT / collector
    package = collector.replace("/", ".")
    rooms = {path.parent.name for path in folder.glob("*/step.py")}
    assert len(rooms) >= 6
    found = {
        f"{path.relative_to(ROOT)}: {node.module}"
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}.")
        for room, *inside in [str(node.module).removeprefix(f"{package}.").split(".")]
        if inside and room in rooms and room not in path.relative_to(folder).parts and path.name != "steps.py"
    }
    assert found == set()
