"""A lakeFS server with the captured answers of a real one, over HTTP.

A captured request gets the captured body, byte for byte as JSON. Single commits, logs, and contents of branches are put
together from captured single answers (`commits.json`) and the fixture's reads.
"""

from __future__ import annotations

import csv
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.captured import FOLDER, NAMESPACE, REPOSITORY, truth

BASE = f"/api/v1/repositories/{REPOSITORY}"
PAGES = 15


def captured(name: str) -> dict[str, Any]:
    """A captured exchange: request, status, body."""
    found: dict[str, Any] = json.loads((FOLDER / "api" / f"{name}.json").read_text())
    return found


class Replay:
    """Answers requests from the fixture."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.unknown: list[str] = []
        self.metadata: dict[str, str] = {}
        self._commits = {commit["id"]: commit for commit in captured("commits")["commits"]}
        self._branches = {item["id"]: item for item in captured("branches_show_hidden")["body"]["results"]}
        self._polls = 0
        with (FOLDER / "listing.csv").open() as lines:
            self._listing = {row["key"]: row for row in csv.DictReader(lines)}
        self._reads = {read["ref"]: read["objects"] for read in truth()["reads"] if read["kind"] == "branch"}

    def answer(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        self.asked.append(f"{method} {path}")
        found = self._post(path, body) if method == "POST" else self._get(path, query)
        if found is None:
            self.unknown.append(f"{method} {path}")
            return 404, {"message": "invalid API endpoint"}
        return found

    def _post(self, path: str, body: dict[str, Any]) -> tuple[int, Any] | None:
        match path.removeprefix(BASE):
            case "/gc/prepare_uncommited":
                token = body.get("continuation_token")
                for number in range(1, PAGES + 1):
                    page = captured(f"prepare_uncommitted_{number:02d}")
                    if page["request"]["body"].get("continuation_token") == token:
                        return page["status"], page["body"]
                return 400, {"message": "invalid continuation token"}
            case "/gc/prepare_commits/async":
                return self._whole("prepare_commits_async")
            case "/metadata":
                self.metadata |= body["metadata"]
                return 201, {}
        return None

    def _get(self, path: str, query: dict[str, str]) -> tuple[int, Any] | None:
        match path.removeprefix(BASE).split("/")[1:]:
            case _ if path == "/api/v1/usage-report/summary":
                return 200, {"installation_id": "captured", "reports": []}
            case _ if path == "/api/v1/repositories":
                return self._whole("repositories")
            case []:
                return self._whole("repository")
            case ["branches"]:
                return self._whole("branches_show_hidden" if "show_hidden" in query else "branches_default")
            case ["metadata"]:
                return 200, self.metadata
            case ["tags"]:
                return self._whole("tags")
            case ["settings", "gc_rules"]:
                return self._whole("gc_rules")
            case ["gc", "prepare_commits", "status"]:
                self._polls += 1
                return self._whole("prepare_commits_status_" + ("first" if self._polls == 1 else "done"))
            case ["commits", commit_id]:
                return self._commit(commit_id)
            case ["refs", ref, "commits"]:
                return 200, _page(list(self._log(ref)))
            case ["refs", ref, "objects", "stat"]:
                return self._stat(ref, query["path"])
            case ["refs", ref, "objects", "ls"]:
                shown = [
                    self._stats(item) for item in self._reads[ref] if item["path"] > query.get("after", "")
                ]
                return 200, _page(shown[: int(query.get("amount", 100))])
            case ["branches", _, "diff"]:
                return 200, _page([])
        return None

    def _whole(self, name: str) -> tuple[int, Any]:
        found = captured(name)
        return found["status"], found["body"]

    def _commit(self, commit_id: str) -> tuple[int, Any]:
        found = [commit for known, commit in self._commits.items() if known.startswith(commit_id)]
        return (200, found[0]) if len(found) == 1 else self._whole("error_unknown_commit")

    def _log(self, ref: str) -> Iterator[dict[str, Any]]:
        if ref == "main":
            yield from captured("log_main")["body"]["results"]
            return
        heads = self._branches | {item["id"]: item for item in captured("tags")["body"]["results"]}
        waiting, seen = [heads[ref]["commit_id"] if ref in heads else ref], set[str]()
        while waiting:
            commit = self._commits[waiting.pop(0)]
            if commit["id"] not in seen:
                seen.add(commit["id"])
                waiting.extend(commit["parents"])
                yield commit

    def _stat(self, ref: str, path: str) -> tuple[int, Any]:
        for item in self._reads.get(ref, []):
            if item["path"] == path:
                return 200, self._stats(item)
        return 404, {"message": "not found"}

    def _stats(self, item: dict[str, Any]) -> dict[str, Any]:
        return {
            "path": item["path"],
            "path_type": "object",
            "physical_address": f"{NAMESPACE}/{item['key']}",
            "checksum": self._listing[item["key"]]["etag"],
            "size_bytes": item["size"],
            "mtime": 0,
            "metadata": {},
        }


def _page(results: list[Any]) -> dict[str, Any]:
    pagination = {"has_more": False, "max_per_page": 1000, "next_offset": "", "results": len(results)}
    return {"pagination": pagination, "results": results}


@contextmanager
def replayed_lakefs() -> Iterator[tuple[str, Replay]]:
    """Serve the captured answers; returns the endpoint and the requests."""
    replay = Replay()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body are two packets, and the second must not wait

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[0] for name, values in parse_qs(parts.query).items()}
            status, answer = replay.answer(
                self.command, unquote(parts.path), query, json.loads(body or b"{}")
            )
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = handle_any

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", replay
    finally:
        server.shutdown()
        server.server_close()
