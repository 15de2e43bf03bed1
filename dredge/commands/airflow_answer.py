"""Answers in Airflow, by its API: a waiting run continues at once, and Airflow records the person."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

from dredge.errors import ConfigError, NotFoundError, RefusedError, UnavailableError

URL, TOKEN = "DREDGE_AIRFLOW_URL", "DREDGE_AIRFLOW_TOKEN"
_TIMEOUT_SECONDS = 30


def is_named() -> bool:
    """Whether the environment says where Airflow is."""
    return bool(os.environ.get(URL))


def answer_in_airflow(holder: str, option: str) -> None:
    """Answer the task `approve` of a DAG run.

    Args:
        holder: DAG and id of the run, as the holder of its lease is called.
        option: "Approve" or "Reject".

    Raises:
        ConfigError: the environment names no Airflow, or its token is not taken.
        NotFoundError: no such run waits there.
        RefusedError: it was answered already, or by another person.
        UnavailableError: Airflow does not answer.
    """
    dag_id, _, run_id = holder.partition(" ")
    url = os.environ.get(URL, "").rstrip("/")
    if urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{URL} is not the address of an Airflow, such as https://airflow.example.com")
    path = (
        f"/api/v2/dags/{quote(dag_id, '')}/dagRuns/{quote(run_id, '')}/taskInstances/approve/-1/hitlDetails"
    )
    request = urllib.request.Request(
        url + path,
        data=json.dumps({"chosen_options": [option]}).encode(),
        method="PATCH",
        headers={
            "Content-Type": "application/json",
            "Authorization": f"Bearer {os.environ.get(TOKEN, '')}",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
            return
    except urllib.error.HTTPError as error:
        error.close()
        raise _error(error.code, holder, url) from None
    except (urllib.error.URLError, TimeoutError) as error:
        raise UnavailableError(
            f"Airflow at {url} does not answer: {error}. Nothing was answered there."
        ) from None


def _error(status: int, holder: str, url: str) -> Exception:
    match status:
        case 401:
            return ConfigError(f"Airflow at {url} does not take the token in {TOKEN}. Nothing was answered.")
        case 403:
            return RefusedError(
                f"Airflow at {url} does not let you answer for {holder}. Nothing was answered."
            )
        case 404:
            return NotFoundError(f"{holder} awaits no answer in Airflow at {url}. Nothing was answered.")
        case 409:
            return RefusedError(
                f"{holder} has been answered in Airflow at {url}; the first answer is valid there."
            )
    return UnavailableError(f"Airflow at {url} answered {status}. Nothing was answered there.")
