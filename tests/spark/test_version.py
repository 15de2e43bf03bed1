"""P1 of docs/platform-behaviour.md: `pyspark-client` overwrites files of `pyspark` when both are installed."""

import importlib.metadata

import pyspark
import pytest


def test_one_pyspark_and_no_other_on_top_of_it() -> None:
    assert pyspark.__version__ == importlib.metadata.version("pyspark")


def test_the_client_package_is_not_installed() -> None:
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("pyspark-client")
