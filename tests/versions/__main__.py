"""Runs the package in an environment for each cell of a small matrix; prints the table of docs/install.md.

    ./run test versions [NAMES]         such as airflow-3.0 or airflow-3.3-spark-4.2; all without

Each environment is built from the package index, with the wheel of this tree in it, below `.dredge/versions`. In each:
all DAGs are imported, one clean run of `lakefs_gc` deletes with Spark, its deletions are restored, and the pages are
asked for.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo import proof
from tests.support.installed import ROOT, build_wheel, environment
from tests.support.lakefs_server import KEY_PAIR, lakefs_server
from tests.support.planted import PlantedLake

HOME = ROOT / ".dredge" / "versions"
INSIDE = Path(__file__).with_name("inside.py")
DAGS = "".join(
    f"from airflow_dredge.dags.{path.stem} import *\n" for path in sorted((ROOT / "dags").glob("[a-z]*.py"))
)
#: Providers want it beside `pyspark`, and both write the same files.
EXCLUDED = "pyspark-client\n"
PARTS = ("DAGs", "run", "restore", "pages")


@dataclass(frozen=True)
class Cell:
    airflow: str
    spark: str
    python: str
    protobuf: str
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"airflow-{self.airflow}-spark-{self.spark}-python-{self.python}"


CELLS = (
    Cell(
        "3.0", "3.5", "3.12", "6", ("fastapi<0.118",)
    ),  # its own API fails with newer ones, as that of 3.2 does
    Cell("3.1", "4.0", "3.12", "6"),
    Cell("3.2", "4.1", "3.12", "7", ("fastapi<0.137", "cadwyn<8")),
    Cell("3.3", "4.2", "3.12", "7"),
    Cell("3.3", "4.3", "3.13", "7"),
    Cell("3.3", "4.3", "3.14", "7"),
)


class Environment:
    def __init__(self, cell: Cell, wheel: Path) -> None:
        self.cell = cell
        self.home = HOME / cell.name
        self.python = self.home / "env" / "bin" / "python"
        self._install(wheel)
        self.variables = self._variables()

    def _install(self, wheel: Path) -> None:
        uv = os.environ.get("UV", "uv")
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "excluded.txt").write_text(EXCLUDED)
        if not self.python.exists():
            check([uv, "venv", "--quiet", "--python", self.cell.python, str(self.home / "env")])
        wanted = [
            f"dredge[airflow] @ {wheel.as_uri()}",
            f"apache-airflow=={self.cell.airflow}.*",
            f"pyspark=={self.cell.spark}.*",
            f"protobuf=={self.cell.protobuf}.*",
        ]
        wanted += self.cell.more
        excludes = ["--excludes", str(self.home / "excluded.txt"), "--reinstall-package", "dredge"]
        check([uv, "pip", "install", "--quiet", "--python", str(self.python), *excludes, *wanted])

    def _variables(self) -> dict[str, str]:
        airflow = self.home / "airflow"
        shutil.rmtree(airflow, ignore_errors=True)
        (airflow / "dags").mkdir(parents=True)
        (airflow / "dags" / "dredge_dags.py").write_text(DAGS)
        found = (
            environment()
            | {
                "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}",
                "AIRFLOW_HOME": str(airflow),
                "AIRFLOW__CORE__DAGS_FOLDER": str(airflow / "dags"),
                "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
                "AIRFLOW__API_AUTH__JWT_ISSUER": "airflow",  # new versions of PyJWT demand one, and 3.0 has no default
            }
        )
        # An asset of a DAG that Airflow does not know yet is inactive, and 3.0 fails the task that updates it.
        for command in (["db", "migrate"], ["dags", "reserialize"]):
            check([str(self.python.with_name("airflow")), *command], found)
        return found

    def inside(self, part: str, *arguments: str, more: Mapping[str, str] | None = None) -> Any:
        """Do a part of `inside.py` there, and return the JSON of its last line."""
        command = [str(self.python), str(INSIDE), part, *arguments]
        return json.loads(check(command, self.variables | dict(more or {}), self.home).splitlines()[-1])


def check(
    command: Sequence[str], variables: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    done = subprocess.run(
        [*command], env=variables, cwd=folder, capture_output=True, text=True, check=False, timeout=3600
    )
    if folder is not None:
        (folder / "last.log").write_text(f"{done.stdout}\n{done.stderr}")
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def try_cell(cell: Cell, wheel: Path) -> dict[str, str]:
    found = Environment(cell, wheel)
    versions: dict[str, str] = found.inside("versions")
    dags = found.inside("dags")
    if dags["errors"]:
        raise RuntimeError(json.dumps(dags["errors"], indent=1))
    return versions | {"DAGs": str(len(dags["dags"]))} | collect_and_restore(found)


def collect_and_restore(found: Environment) -> dict[str, str]:
    """Let a run delete the garbage of a planted lake with Spark, and a restore bring it back."""
    with (
        tempfile.TemporaryDirectory(prefix="dredge-versions-") as folder,
        lakefs_server(Path(folder) / "lake") as server,
    ):
        planted = PlantedLake.plant(server.client, server.namespace("lake"))
        planted.age(2)
        before = planted.present()
        lakefs = {
            "conn_type": "lakefs",
            "host": server.server.endpoint,
            "login": KEY_PAIR.access_key_id,
            "password": KEY_PAIR.secret_access_key,
        }
        connections = {
            "AIRFLOW_CONN_LAKEFS_DEFAULT": json.dumps(lakefs),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        conf = {
            "repository": "lake",
            "dry_run": False,
            "undo": "quarantine",
            "unsafe_min_age_seconds": 1,
            "unsafe_grace_seconds": 0,
            "max_delete_percent": None,
            "spark_rows_min": 0,
        }
        done = found.inside("run", "lakefs_gc", json.dumps(conf), more=connections)
        assert set(done["tasks"].values()) == {"success"}, done
        gone, counts = before - planted.present(), done["save_report"]["counts"]
        deleted = len(gone)
        # Garbage that is as long as an object of a branch head may be held, and the report says so.
        assert gone <= planted.garbage, sorted(gone - planted.garbage)
        assert deleted == counts["deleted_objects"] > 0, (deleted, counts)
        assert len(planted.garbage - gone) == counts["kept_objects"], (deleted, counts)
        assert proof.unreadable(planted.before, proof.read_everything(planted.lake)) == []
        run_id = done["plan"]["run_id"]
        back = {"repository": "lake", "run": run_id, "all": True, "because": "the test of versions"}
        restored = found.inside("run", "lakefs_gc_restore", json.dumps(back), more=connections)
        assert set(restored["tasks"].values()) == {"success"}, restored
        returned = before & planted.present()
        assert planted.live <= returned
        assert returned == before, sorted(before - returned)
        pages = found.inside("pages", more=connections)
        assert (pages.pop("without a token"), pages.pop("runs")) == (401, 1), pages
        assert set(pages.values()) == {200}, pages
        return {
            "run": f"{deleted} deleted",
            "restore": f"{deleted} of {deleted}",
            "pages": f"{len(pages)} of {len(pages)}",
        }


def table(rows: Sequence[Mapping[str, str]]) -> str:
    heads = ("Airflow", "PySpark", "Python", "protobuf", *PARTS)
    lines = [" | ".join(heads), "|".join(["---"] * len(heads))]
    lines += [" | ".join(row[head] for head in heads) for row in rows]
    return "\n".join(f"| {line} |" if "---" not in line else f"|{line}|" for line in lines)


def main(names: Sequence[str]) -> int:
    """Try the cells; returns how many failed."""
    rows, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="dredge-wheel-") as folder:
        wheel = build_wheel(Path(folder))
        for cell in [cell for cell in CELLS if not names or cell.name.startswith(tuple(names))]:
            started = time.monotonic()
            try:
                rows.append(try_cell(cell, wheel))
            except (AssertionError, RuntimeError, subprocess.TimeoutExpired):
                failed += 1
                print(f"{cell.name}: FAILED: {traceback.format_exc()}", file=sys.stderr)
            print(f"{cell.name}: {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    print(f"{datetime.now(UTC):%Y-%m-%d}\n\n{table(rows)}")
    print(f"\n{len(rows)} passed, {failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
