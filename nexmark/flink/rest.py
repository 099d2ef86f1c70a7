"""What Flink's job manager and SQL gateway answer over HTTP, on loopback."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from nodes.errors import RunFailed

TIMEOUT_S = 60.0
"""For one answer."""
STATEMENT_S = 300.0
"""For one statement; the first one of a cold gateway takes long on a busy machine."""
POLL_S = 0.05
ENDED = ("FINISHED", "FAILED", "CANCELED")


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job; times are those of Flink's clock, in ms. ``began_ms``: all of its tasks were running."""

    state: str
    began_ms: int
    ended_ms: int


class JobManager:
    """The REST interface of a job manager."""

    def __init__(self, url: str) -> None:
        self.url = url

    def overview(self) -> dict[str, Any] | None:
        """Slots and task managers; None while it does not answer."""
        try:
            return request(f"{self.url}/overview")
        except (urllib.error.URLError, OSError):
            return None

    def busy(self) -> list[str]:
        """Task managers all of whose slots are taken, by their resource ids, sorted."""
        found = request(f"{self.url}/taskmanagers")["taskmanagers"]
        return sorted(one["id"] for one in found if one["slotsNumber"] and not one["freeSlots"])

    def job(self, job: str) -> dict[str, Any]:
        """All about a job."""
        return request(f"{self.url}/jobs/{job}")

    def all_running(self, job: str) -> bool:
        """Whether each of its tasks runs, or has ended."""
        vertices = self.job(job)["vertices"]
        return bool(vertices) and all(vertex["status"] in ("RUNNING", "FINISHED") for vertex in vertices)

    def state(self, job: str) -> str:
        """``RUNNING``, ``FINISHED``, ``FAILED`` and others."""
        return self.job(job)["state"]

    def times(self, job: str) -> JobState:
        """When all tasks of an ended job ran, and when the last had ended."""
        found = self.job(job)
        began, ended = 0, 0
        for vertex in found["vertices"]:
            for task in request(f"{self.url}/jobs/{job}/vertices/{vertex['id']}")["subtasks"]:
                ended = max(ended, task["end-time"])
                began = max(began, task["end-time"] - max(0, task["status-duration"]["RUNNING"]))
        return JobState(found["state"], began, ended)

    def failure(self, job: str) -> str:
        """Why it failed."""
        entries = request(f"{self.url}/jobs/{job}/exceptions").get("exceptionHistory", {}).get("entries", [])
        return "\n".join(str(entry.get("stacktrace", ""))[:2000] for entry in entries[:1]) or "no reason given"

    def cancel(self, job: str) -> None:
        """Request its end, and wait until it has ended."""
        request(f"{self.url}/jobs/{job}?mode=cancel", method="PATCH")
        deadline = time.monotonic() + TIMEOUT_S
        while self.state(job) not in ENDED:
            if time.monotonic() > deadline:
                raise RunFailed(f"Flink's job {job} does not end")
            time.sleep(POLL_S)


class Gateway:
    """SQL over HTTP."""

    def __init__(self, url: str) -> None:
        self.url = f"{url}/v1"

    def answers(self) -> bool:
        """Whether it is up."""
        try:
            return "version" in request(f"{self.url}/info")
        except (urllib.error.URLError, OSError):
            return False

    def submit(self, statements: list[str], settings: dict[str, str]) -> str:
        """Run statements in a session of their own; the id of the job that the last one starts."""
        session = request(f"{self.url}/sessions", {"properties": settings})["sessionHandle"]
        try:
            result: dict[str, Any] = {}
            for statement in statements:
                result = self._run(session, statement)
            return result["jobID"]
        finally:
            request(f"{self.url}/sessions/{session}", method="DELETE")

    def _run(self, session: str, statement: str) -> dict[str, Any]:
        place = f"{self.url}/sessions/{session}"
        operation = request(f"{place}/statements", {"statement": statement})["operationHandle"]
        deadline = time.monotonic() + STATEMENT_S
        while request(f"{place}/operations/{operation}/status")["status"] in ("INITIALIZED", "PENDING", "RUNNING"):
            if time.monotonic() > deadline:
                raise RunFailed(f"Flink took longer than {STATEMENT_S:.0f} s for: {statement}")
            time.sleep(POLL_S)
        try:
            return request(f"{place}/operations/{operation}/result/0")
        except urllib.error.HTTPError as error:
            raise RunFailed(f"Flink refuses: {statement}\n{_causes(error)}") from error


def _causes(error: urllib.error.HTTPError) -> str:
    """The causes in the stack trace that an error's answer has."""
    text = error.read().decode("utf-8", "replace").replace("\\n", "\n")
    return "\n".join(line for line in text.splitlines() if line.startswith("Caused by")) or text[:1000]


def request(url: str, body: object = None, method: str | None = None) -> dict[str, Any]:
    """One request and its answer, both JSON."""
    data = None if body is None else json.dumps(body).encode()
    prepared = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(prepared, timeout=TIMEOUT_S) as answer:
        return json.loads(answer.read() or b"{}")
