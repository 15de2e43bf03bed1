"""A plugin of pytest that writes the names of failed tests into the file that DREDGE_FAILURES names."""

from __future__ import annotations

import os

import pytest


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        with open(os.environ["DREDGE_FAILURES"], "a") as file:
            print(report.nodeid, file=file)
