"""A class-data archive for Spark's driver: mapping Spark's classes from a file halves the start time.

A JVM with Spark loads, parses and verifies some ten thousand classes at each start. HotSpot can dump the
loaded classes at exit (`-XX:ArchiveClassesAtExit`) and map them at the next start (`-XX:SharedArchiveFile`).
A dump matches one Java and one set of jars, so its name is a hash of both. The JVM ignores an archive that
does not match.

    python -m airflow_dredge.spark_jobs.archive        build the archive now (a minute at most) and print its
    path

Results never depend on the archive: errors are logged, and the job starts without one.
"""

import contextlib
import fcntl
import hashlib
import importlib.util
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

log = logging.getLogger(__name__)

#: Flags for short jobs: no second compiler, no collector threads, a small initial heap instead of a 64th of the
#: machine's memory, and a small part of it for new objects. Measured in docs/decisions/spark-jobs.md.
SHORT_JOB_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms64m", "-Xmn16m")
#: Map the archive at its original address. At another address (the default of newer Javas) every pointer is rewritten,
#: and 120 of its 160 MiB become a private copy. A Java without the option ignores it.
IN_PLACE_OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:ArchiveRelocationMode=0",
)
#: "off" starts without an archive, for example to save 160 MB of cache.
SWITCH = "DREDGE_SPARK_ARCHIVE"
CACHE_DIR = "DREDGE_CACHE_DIR"

_BUILD_SECONDS_MAX = 180
_RETRY_AFTER_SECONDS = 24 * 3600


def spark_home(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder with Spark's `bin/spark-submit` and `jars/`; None without Spark."""
    if environ.get("SPARK_HOME"):
        return Path(environ["SPARK_HOME"])
    spec = importlib.util.find_spec("pyspark")  # finds, does not import
    return Path(spec.origin).parent if spec and spec.origin else None


def java_binary(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return Spark's `java`: from JAVA_HOME, else from the PATH."""
    if environ.get("JAVA_HOME"):
        java = Path(environ["JAVA_HOME"]) / "bin" / "java"
        return java.resolve() if java.exists() else None
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found).resolve() if found else None


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the cache folder: `DREDGE_CACHE_DIR`, else the user's cache folder."""
    if environ.get(CACHE_DIR):
        return Path(environ[CACHE_DIR])
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dredge"


def archive_path(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the path of the archive for this Java and this Spark; None if either is missing."""
    home, java = spark_home(environ), java_binary(environ)
    if home is None or java is None:
        return None
    seen = hashlib.sha256()
    for path in (java, home / "jars"):
        stat = path.stat()
        seen.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode())
    return cache_dir(environ) / f"spark-{seen.hexdigest()[:16]}.jsa"


def ensure_archive(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the archive, built if it is missing; None if it is not available yet.

    Processes start without it while one builds it. A failed build is repeated after a day. Never raises.
    """
    if environ.get(SWITCH, "").lower() in ("off", "0", "false", "no"):
        return None
    try:
        path = archive_path(environ)
        if path is None or path.exists():
            return path
        return _build_once(path, environ)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("Spark starts without a class archive: %s", error)
        return None


def java_options(archive: Path | None) -> str:
    """Return the driver's JVM options as a string, quoted for Spark's launcher."""
    options = list(SHORT_JOB_OPTIONS)
    if archive is not None:
        # cds=off: no warning at every start about an archive that does not fit.
        options += [
            f'"-XX:SharedArchiveFile={archive}"',
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
            *IN_PLACE_OPTIONS,
        ]
    return " ".join(options)


def _build_once(path: Path, environ: Mapping[str, str]) -> Path | None:
    path.parent.mkdir(parents=True, exist_ok=True)
    failed = path.with_suffix(".failed")
    with contextlib.suppress(FileNotFoundError):
        if time.time() - failed.stat().st_mtime < _RETRY_AFTER_SECONDS:
            return None
    with open(path.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("Another process is building Spark's class archive; this one starts without it")
            return None
        if path.exists():  # another process just built it
            return path
        log.info(
            "Building Spark's class archive, once for this Java and Spark: usually a minute or two, at most %d; each"
            " later start takes half the time: %s",
            _BUILD_SECONDS_MAX // 60,
            path,
        )
        started = time.monotonic()
        if _build(path, environ):
            log.info("Built Spark's class archive in %.0f s", time.monotonic() - started)
            return path
        failed.touch()
        return None


def _build(path: Path, environ: Mapping[str, str]) -> bool:
    home = spark_home(environ)
    if home is None:
        return False
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as folder:
        dump = Path(folder) / "spark.jsa"
        options = " ".join((*SHORT_JOB_OPTIONS, f'"-XX:ArchiveClassesAtExit={dump}"', "-Xlog:cds=off"))
        command = [
            str(home / "bin" / "spark-submit"),
            "--master",
            "local[1]",
            "--driver-java-options",
            options,
        ]
        command += ["--conf", "spark.ui.enabled=false", "--conf", "spark.driver.bindAddress=127.0.0.1"]
        command += ["--conf", "spark.driver.host=127.0.0.1", str(Path(__file__).resolve()), "exercise"]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**environ, "PYSPARK_PYTHON": sys.executable},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS_MAX,
            check=False,
        )
        if done.returncode or not dump.exists():
            log.warning("Spark's class archive could not be built: %s", (done.stderr or "no dump")[-2000:])
            return False
        os.replace(dump, path)  # atomic
        return True


def _exercise() -> None:
    """Run a small job to load its classes for the dump."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName("dredge-class-archive").getOrCreate()
    spark.range(0, 2, 1, numPartitions=2).mapInArrow(lambda batches: batches, "id long").collect()
    spark.stop()


if __name__ == "__main__":
    if sys.argv[1:] == ["exercise"]:
        _exercise()
    else:
        logging.basicConfig(level=logging.INFO, format="%(message)s")
        built = ensure_archive()
        print(built or "none")
