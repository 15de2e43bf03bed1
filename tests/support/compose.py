"""The services of docker-compose.yaml as processes of this machine: their commands and settings are read from the file.

Only addresses of the file are replaced by addresses of this machine.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = ROOT / "docker-compose.yaml"
_VARIABLE = re.compile(r"\$\{(\w+):\?\}")


@dataclass(frozen=True)
class Service:
    command: list[str]  # its words; empty for what its image does
    environment: dict[str, str]  # its variables
    replicas: int  # how many of it there are


def secrets_wanted() -> list[str]:
    """The required variables of `.env`, from its example."""
    lines = (ROOT / ".env.example").read_text().splitlines()
    return [line.partition("=")[0] for line in lines if "=" in line and not line.startswith("#")]


def read_services(secrets: Mapping[str, str], places: Mapping[str, str]) -> dict[str, Service]:
    text = COMPOSE.read_text()
    for place in places:
        assert place in text, f"{place} is not in docker-compose.yaml any more"

    def filled(value: Any) -> str:
        found = _VARIABLE.sub(lambda match: secrets[match[1]], str(value)).replace("$$", "$")
        for place, here in places.items():
            found = found.replace(place, here)
        return found

    services = yaml.safe_load(text)["services"]
    return {
        name: Service(
            [filled(word) for word in service.get("command", [])],
            {key: filled(value) for key, value in (service.get("environment") or {}).items()},
            service.get("deploy", {}).get("replicas", 1),
        )
        for name, service in services.items()
    }


def image_variables() -> dict[str, str]:
    """The variables of the Dockerfile for Airflow, with its source folder at this tree."""
    found = re.findall(r"(AIRFLOW\w+)=(\S+)", (ROOT / "Dockerfile").read_text())
    return {name: value.replace("/opt/dredge", str(ROOT)) for name, value in found}
