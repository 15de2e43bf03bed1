"""How executors get their Python, by one Param with three kinds of values."""

from __future__ import annotations

import pytest

from airflow_dredge.operators.spark_master import check_answers, python_conf
from dredge.errors import ConfigError

STANDALONE, K8S = "spark://m:7077", "k8s://https://api:6443"


PACKED = {"spark.pyspark.python": "./dredge-env/bin/python3"}
IMAGE = {"spark.pyspark.python": "python3", "spark.kubernetes.container.image": "registry:5000/dredge:1"}


@pytest.mark.parametrize(
    ("given", "master", "conf"),
    [
        ("/opt/dredge/bin/python", STANDALONE, {"spark.pyspark.python": "/opt/dredge/bin/python"}),
        ("/shared/env.tgz", STANDALONE, PACKED | {"spark.archives": "/shared/env.tgz#dredge-env"}),
        ("s3a://ops/env.tar.gz", "yarn", PACKED | {"spark.archives": "s3a://ops/env.tar.gz#dredge-env"}),
        ("image:registry:5000/dredge:1", K8S, IMAGE),
        ("", "local[2]", {}),
        ("None", STANDALONE, {}),
        (None, K8S, {}),
    ],
)
def test_a_path_a_packed_environment_or_an_image(
    given: str | None, master: str, conf: dict[str, str]
) -> None:
    assert python_conf(given, master) == conf


@pytest.mark.parametrize(
    ("given", "master"),
    [
        ("/opt/python", "local[2]"),
        ("/opt/dredge.tar.gz", "local"),
        ("image:dredge", STANDALONE),
        ("image:dredge", "yarn"),
        ("python3", STANDALONE),
        ("dredge.zip", STANDALONE),
    ],
)
def test_what_the_master_cannot_use_is_refused(given: str, master: str) -> None:
    with pytest.raises(ConfigError):
        python_conf(given, master)


@pytest.mark.parametrize("master", ["local[*]", "local-cluster[2,1,1024]", "yarn", K8S])
def test_only_a_standalone_master_has_one_address(master: str) -> None:
    check_answers(master)
