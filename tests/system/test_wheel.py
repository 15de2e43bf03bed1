"""The wheel in an Airflow with other people's code: one name, entry points, DAGs by two lines, and no `operators`."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dredge import __version__
from tests.support import installed
from tests.support.airflow import empty_database
from tests.support.installed import ROOT, build_wheel, install
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.planted import PlantedLake

pytestmark = pytest.mark.system

UV = shutil.which("uv") or str(ROOT / ".dredge" / "tools" / "bin" / "uv")

#: Ours, as docs/install.md has them.
DAGS_FILE = """\
from airflow_dredge.dags.lakefs_gc import *
from airflow_dredge.dags.icechunk_expiration import *
"""
THEIR_DAG = """\
from airflow.sdk import DAG
from operators.theirs import TheirOperator

with DAG("theirs"):
    TheirOperator(task_id="theirs")
"""
THEIR_OPERATOR = """\
from airflow.sdk import BaseOperator

class TheirOperator(BaseOperator):
    pass
"""
LOOK = """
import json
from pathlib import Path
from airflow import settings
from airflow.dag_processing.dagbag import BundleDagBag
from airflow.plugins_manager import get_plugin_info
from airflow.providers_manager import ProvidersManager

bag = BundleDagBag(settings.DAGS_FOLDER, bundle_path=Path(settings.DAGS_FOLDER))
import airflow_dredge, dredge, operators
print(json.dumps({
    "errors": {str(path): str(error) for path, error in bag.import_errors.items()},
    "dags": {name: type(dag.tasks[0]).__module__ for name, dag in bag.dags.items()},
    "files": {name: dag.fileloc for name, dag in bag.dags.items()},
    "job": bag.dags["lakefs_gc"].get_task("subtract").application,
    "plugins": [plugin["name"] for plugin in get_plugin_info()],
    "hook": ProvidersManager().hooks["lakefs"].hook_class_name,
    "packages": [str(Path(module.__file__).parent) for module in (airflow_dredge, dredge, operators)],
}))
"""
RUN = """
import json, sys, warnings
from airflow.dag_processing.dagbag import DagBag

warnings.simplefilter("ignore")
run = DagBag().dags["lakefs_gc"].test(run_conf=json.loads(sys.argv[1]))
print(json.dumps({ti.task_id: str(ti.state) for ti in run.get_task_instances()} | {"": str(run.state)}))
"""
#: A Python without Airflow, as an executor's, that loads what the driver's function names.
BARE = """
import sys
sys.modules.update(dict.fromkeys(("airflow", "fastapi", "starlette", "pytest")))
from airflow_dredge.spark_jobs.rows import answer
from airflow_dredge.spark_jobs.application import load_modules
print(answer(0, load_modules, "{}", b"{}", {}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("environment")
    install(wheel, home)
    return home


@pytest.fixture(scope="module")
def dags_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another project's DAGs, with its own `operators`, and our two lines beside them."""
    folder = tmp_path_factory.mktemp("dags")
    (folder / "operators").mkdir()
    (folder / "operators" / "__init__.py").write_text("")
    (folder / "operators" / "theirs.py").write_text(THEIR_OPERATOR)
    (folder / "theirs.py").write_text(THEIR_DAG)
    (folder / "dredge_dags.py").write_text(DAGS_FILE)
    return folder


@pytest.fixture
def environment(dags_folder: Path, tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "airflow"
    home.mkdir()
    shutil.copy(empty_database(), home / "airflow.db")
    return installed.environment() | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags_folder),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }


def last_line(site: Path, program: str, environment: Mapping[str, str], *arguments: str) -> Any:
    """Run a program in the environment, outside of this tree; give the JSON of its last line."""
    done = subprocess.run(
        [str(site / "bin" / "python"), "-c", program, *arguments],
        cwd=site,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_the_wheel_brings_three_top_level_names_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as content:
        names = content.namelist()
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {
        "airflow_dredge",
        "dredge",
        "lakefs_embedded",
    }
    assert {"lakefs_gc.py", "__init__.py"} <= {
        name.rpartition("/")[2] for name in names if name.startswith("airflow_dredge/dags/")
    }
    assert len(names) == len(set(names))
    assert wheel.stat().st_size < 2_000_000


def test_it_lives_beside_another_projects_operators(
    site: Path, dags_folder: Path, environment: dict[str, str]
) -> None:
    found = last_line(site, LOOK, environment)
    assert found["errors"] == {}
    assert found["dags"] == {
        "theirs": "operators.theirs",
        "lakefs_gc": "airflow_dredge.operators.lakefs.run",
        "icechunk_expiration": "airflow_dredge.operators.icechunk.collection",
    }
    assert found["files"]["lakefs_gc"] == str(dags_folder / "dredge_dags.py")
    assert found["plugins"].count("dredge_pages") == 1
    assert found["hook"] == "airflow_dredge.operators.hooks.lakefs.LakeFSHook"
    ours, core, theirs = map(Path, found["packages"])
    assert site in ours.parents
    assert site in core.parents
    assert theirs == dags_folder / "operators"
    assert Path(found["job"]) == ours / "spark_jobs" / "step.py"


def test_an_executors_python_needs_no_airflow(site: Path, environment: dict[str, str]) -> None:
    assert last_line(site, BARE, environment) == {"index": 0, "result": {}}


def uv_build(folder: Path) -> Path:
    command = [UV, "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, "--out-dir", str(folder)], cwd=ROOT, check=True)
    (made,) = folder.glob("*.whl")
    return made


def test_uv_build_makes_the_same_wheel_and_its_command_runs(wheel: Path, tmp_path: Path) -> None:
    made = uv_build(tmp_path / "dist")
    with zipfile.ZipFile(made) as ours, zipfile.ZipFile(wheel) as other:
        assert sorted(ours.namelist()) == sorted(other.namelist())
    python = install(made, tmp_path / "environment")
    program = "from importlib.metadata import entry_points; entry_points(group='console_scripts')['dredge'].load()()"
    done = subprocess.run(
        [str(python), "-c", program, "--version"],
        cwd=tmp_path,
        env=installed.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == __version__


@pytest.mark.long
def test_in_an_empty_environment_it_stands_beside_a_plain_airflow(
    dags_folder: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """With the versions of the lock file, from the package index: nothing of this environment is there."""
    made, home = uv_build(tmp_path / "dist"), tmp_path / "environment"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, str(home)], check=True)
    locked = tmp_path / "constraints.txt"
    export = ["export", "--quiet", "--frozen", "--no-hashes", "--no-emit-project", "--no-default-groups"]
    subprocess.run([UV, *export, "--all-extras", "--output-file", str(locked)], cwd=ROOT, check=True)
    excluded = tmp_path / "excluded.txt"
    excluded.write_text("pyspark-client\n")  # as docs/install.md says
    pip = [UV, "pip", "install", "--quiet", "--python", str(home / "bin" / "python")]
    pip += ["--excludes", str(excluded), "--constraints", str(locked)]
    subprocess.run([*pip, f"dredge[airflow] @ {made.as_uri()}"], check=True)
    bare = environment | {"PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    said = subprocess.run(["dredge", "--version"], env=bare, capture_output=True, text=True, check=True)
    assert said.stdout.split()[-1] == __version__
    assert Path(shutil.which("dredge", path=bare["PATH"]) or "").parent == home / "bin"
    found = last_line(home, LOOK, bare)
    assert found["errors"] == {}
    assert set(found["dags"]) == {"theirs", "lakefs_gc", "icechunk_expiration"}
    assert found["plugins"].count("dredge_pages") == 1
    assert all(home in Path(package).parents for package in found["packages"][:2])


@pytest.mark.long
def test_a_run_of_the_installed_dag_deletes_the_garbage_with_sparks_local_engine(
    site: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    import pyspark

    with lakefs_server(tmp_path / "lake") as server:
        planted = PlantedLake.plant(server.client, server.namespace("lake"))
        planted.age(2)
        lakefs = {
            "conn_type": "lakefs",
            "host": server.server.endpoint,
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        connections = {
            "AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(lakefs),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
        }
        conf = {
            "repository": "lake",
            "dry_run": False,
            "unsafe_min_age_seconds": 1,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
            "spark_rows_min": 0,
        }
        found = last_line(site, RUN, environment | connections, json.dumps(conf))
        assert found == dict.fromkeys(found, "success")
        planted.assert_swept()
