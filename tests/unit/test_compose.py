"""docker-compose.yaml cannot be started where there is no Docker, so its promises are checked as data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docker-compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]


def test_compose_has_every_part_of_the_production_shape() -> None:
    assert set(SERVICES) == {
        "airflow-db",
        "airflow-init",
        "api-server",
        "scheduler",
        "dag-processor",
        "triggerer",
        "spark-master",
        "spark-worker",
        "lakefs-db",
        "lakefs",
        "s3",
    }


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_compose_service_names_an_exact_image_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.search(r":[^:/]*\d", image), image
    assert not image.endswith(":latest")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_compose_dependencies_exist_and_what_must_be_healthy_says_how(name: str) -> None:
    needs = SERVICES[name].get("depends_on") or {}
    for other, terms in dict(needs).items():
        assert other in SERVICES
        if terms["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[other], f"{name} waits for {other}, which has no health check"


def test_compose_contains_no_secret_and_fails_early_without_one() -> None:
    words = r"[A-Z0-9_]*(?:PASSWORD|SECRET|KEY)[A-Z0-9_]*"
    used = set(re.findall(r"\$\{(" + words + r")", TEXT))
    assert used
    assert all(f"${{{name}:?}}" in TEXT for name in used)
    assert used <= set(re.findall(r"^([A-Z0-9_]+)=$", (ROOT / ".env.example").read_text(), re.MULTILINE))


def test_compose_publishes_ports_on_the_loopback_address_only() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_dockerfile_copies_every_package_and_never_the_tests() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    for package in ("dredge", "airflow_dredge", "operators", "spark_jobs", "plugins", "dags"):
        assert f"COPY {package} {package}" in dockerfile
    assert "tests" not in dockerfile
    assert "--frozen" in dockerfile
