"""docker-compose.yaml cannot be started where there is no Docker, so its promises are checked as data."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from tests.support.compose import image_variables, read_services, secrets_wanted

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "tests" / "fixtures" / "compose" / "compose-spec.json"
TEXT = (ROOT / "docker-compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]


def test_compose_file_is_one_by_the_specifications_own_schema() -> None:
    validator = Draft7Validator(json.loads(SCHEMA.read_text()))
    assert [error.message for error in validator.iter_errors(yaml.safe_load(TEXT))] == []
    broken = yaml.safe_load(TEXT.replace("restart: unless-stopped", "restarts: unless-stopped"))
    assert list(validator.iter_errors(broken)) != []


def test_every_service_that_stays_says_when_it_is_well() -> None:
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == {"airflow-init"}


def test_settings_are_read_from_the_file_with_every_secret_in_its_place() -> None:
    made = {name: f"secret-{number}" for number, name in enumerate(secrets_wanted())}
    services = read_services(made, {"http://s3:9000": "http://here:1"})
    airflow = {name: services[name].environment for name in ("api-server", "scheduler", "triggerer")}
    assert airflow["api-server"] == airflow["scheduler"] == airflow["triggerer"]
    said = airflow["scheduler"]
    assert said["AIRFLOW__API_AUTH__JWT_SECRET"] == made["AIRFLOW_JWT_SECRET"]
    assert said["AIRFLOW__API__SECRET_KEY"] == made["AIRFLOW_API_SECRET_KEY"]
    aws = json.loads(said["AIRFLOW_CONN_AWS_DEFAULT"])
    assert (aws["password"], aws["extra"]["endpoint_url"]) == (made["S3_SECRET_ACCESS_KEY"], "http://here:1")
    lakefs = services["lakefs"].environment
    assert (
        json.loads(said["AIRFLOW_CONN_LAKEFS_DEFAULT"])["password"]
        == (lakefs["LAKEFS_INSTALLATION_SECRET_ACCESS_KEY"])
    )
    assert not [
        value for service in services.values() for value in service.environment.values() if "${" in value
    ]
    assert image_variables()["AIRFLOW__CORE__DAGS_FOLDER"] == str(ROOT / "dags")
    assert services["spark-worker"].replicas == 2
    assert services["spark-worker"].environment == {}, "its credentials come with the work"
    del made["S3_SECRET_ACCESS_KEY"]
    with pytest.raises(KeyError, match="S3_SECRET_ACCESS_KEY"):
        read_services(made, {})


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
    for package in (
        "dredge",
        "lakefs_embedded",
        "airflow_dredge",
        "operators",
        "spark_jobs",
        "plugins",
        "dags",
    ):
        assert f"COPY {package} {package}" in dockerfile
    assert "tests" not in dockerfile
    assert "--frozen" in dockerfile
