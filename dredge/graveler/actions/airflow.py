"""Airflow hooks: a DAG run is triggered, and waited for where the hook asks for it.

    properties:
      url: https://airflow.example.com
      dag_id: checks
      username: lakefs
      password: "{{ ENV.LAKEFSACTION_AIRFLOW }}"
      dag_conf: {table: events}                       optional; the event is added as `lakeFS_event`
      wait_for_dag: true                              optional; refuse unless the run succeeds
      timeout: 10m                                    optional: how long to wait, a minute by default

The API is Airflow 2's (`/api/v1`, basic authentication), as a real server speaks it.

Source: lakeFS pkg/actions/airflow.go.
"""

from __future__ import annotations

import base64
import json
import posixpath
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from dredge.graveler.actions.errors import HookError
from dredge.graveler.actions.hooks import Log, Run, required
from dredge.graveler.actions.information import information
from dredge.graveler.actions.outgoing import send
from dredge.graveler.actions.text import parse_duration, to_json
from dredge.graveler.actions.variables import Redaction, Variables
from dredge.graveler.catalog.events import Event
from dredge.graveler.errors import InvalidValueError

WAIT_SECONDS = 60.0
REQUEST_SECONDS = 5.0


class AirflowHook:
    """Triggers a DAG.

    Args:
        properties: of the hook.
        variables: that it may use.
        clock: the time in events, aware UTC.
        poll_seconds: interval at which the state of the DAG run is asked for.

    Raises:
        HookError: a property is wrong.
    """

    def __init__(
        self,
        properties: Mapping[str, Any],
        variables: Variables,
        clock: Callable[[], datetime],
        poll_seconds: float,
    ) -> None:
        self._url = required(properties, "url")
        self._dag = required(properties, "dag_id")
        self._user = required(properties, "username")
        self._password = variables.fill(required(properties, "password"))
        self._clock = clock
        self._poll_seconds = poll_seconds
        self._wait = properties.get("wait_for_dag") is True
        self._wait_seconds = WAIT_SECONDS
        if isinstance(properties.get("timeout"), str):
            try:
                self._wait_seconds = parse_duration(properties["timeout"])
            except InvalidValueError as error:
                raise HookError(f"airflow hook timeout property: {error}", failed=False) from None
        self._conf = properties.get("dag_conf", {})
        if not isinstance(self._conf, dict):
            raise HookError("airflow hook conf is not of type Properties: wrong value type", failed=False)
        pair = f"{self._user}:{self._password.value}".encode()
        self._basic = base64.b64encode(pair).decode()
        self._redaction = variables.redaction(self._basic if self._password.secret else "")

    @property
    def redaction(self) -> Redaction:
        """Hides the password."""
        return self._redaction

    def run(self, event: Event, run: Run, log: Log) -> None:
        """Trigger the DAG, and wait for it.

        Raises:
            HookError: it cannot be triggered, or the run that was waited for failed.
        """
        dag_run = f"lakeFS_hook_{run.hook}_{run.id}"
        conf = {**self._conf, "lakeFS_event": information(event, run, self._clock())}
        body = to_json({"dag_run_id": dag_run, "conf": dict(sorted(conf.items()))})
        url = self._runs_url()
        log.write(f"Request:\nPOST {url}\n")
        log.write(f"Username: {self._user}, Password: {self._password.shown}\nBody: {body}\n\n")
        try:
            answer = send("POST", url, self._headers, body.encode(), REQUEST_SECONDS, log)
        except HookError as error:
            raise HookError(f"failed executing airflow request: {error}") from None
        if answer.status != 200:
            raise HookError(f"status code ({answer.status}): airflow hook request failed")
        if self._wait:
            log.write("\nWaiting for DAG to complete...\n")
            self._wait_for(f"{url}/{quote(dag_run, safe='')}", log)

    def _wait_for(self, url: str, log: Log) -> None:
        deadline = time.monotonic() + self._wait_seconds
        while True:
            left = deadline - time.monotonic()
            time.sleep(max(0.0, min(self._poll_seconds, left)))
            if left <= self._poll_seconds:
                raise HookError("context deadline exceeded")
            state = self._state(url, log)
            if state == "failed":
                raise HookError("airflow hook DAG failed")
            if state == "success":
                return

    def _state(self, url: str, log: Log) -> str:
        log.write(f"Request:\nGET {url}\n")
        answer = send("GET", url, self._headers, None, REQUEST_SECONDS, log)
        if answer.status != 200:
            raise HookError(f"status code ({answer.status}): airflow hook request failed")
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise HookError("the state of the DAG run is not a JSON object")
        state = str(found.get("state", ""))
        log.write(f"\nDAG completed with state: {state}\n")
        return state

    @property
    def _headers(self) -> Mapping[str, str]:
        return {"Authorization": f"Basic {self._basic}", "Content-Type": "application/json"}

    def _runs_url(self) -> str:
        parts = urlsplit(self._url)
        path = posixpath.normpath(f"{parts.path}/api/v1/dags/{quote(self._dag, safe='')}/dagRuns")
        return urlunsplit(parts._replace(path=f"/{path.lstrip('/')}"))
