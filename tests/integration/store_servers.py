"""Real servers for checkpoints and views: an S3 interface in a process of its own, and Redis."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from functools import cache
from pathlib import Path
from typing import Any

import redis

from nodes.local_kafka.process import free_port
from nodes.settings.stores import RedisSettings
from tests.integration.processes import ROOT, until

KEYS = {"access_key_id": "tests", "secret_access_key": "tests-secret", "region": "us-east-1"}


class S3Server:
    """moto's server on a free port of this machine. Credentials are not checked."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(ROOT / "tests/integration/s3_process.py"), "-H", "127.0.0.1", "-p", "0"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stderr is not None
        self.port = 0
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        assert self.port, f"moto's server ended with {self.process.wait()}"
        self.process.stderr.close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self, name: str) -> str:
        """Its name, for convenience."""
        urllib.request.urlopen(urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")).close()
        return name

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


@cache
def redis_program() -> str:
    """redis-server, installed if it is missing and that is allowed; else an error that says what is missing."""
    found = subprocess.run(
        ["bash", "deploy/redis.sh"], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    if found.returncode != 0:
        raise RuntimeError(f"no Redis for these tests: {found.stderr.strip()}")
    return found.stdout.strip()


class RedisProcess:
    """A redis-server of its own, in a folder of its own, on a free port of this machine."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.arguments = arguments
        for attempt in range(3):
            self.port = free_port()
            try:
                self.start()
                return
            except AssertionError as error:
                if attempt == 2 or "in use" not in str(error):  # else somebody else was quicker
                    raise

    def start(self) -> None:
        """Start it, also again on the same port and folder; returns when it answers."""
        self.folder.mkdir(exist_ok=True)
        plain = () if "--tls-port" in self.arguments else ("--port", str(self.port))
        self.process = subprocess.Popen(
            [redis_program(), *plain, "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "",
             "--daemonize", "no", *(text.replace("PORT", str(self.port)) for text in self.arguments)],
            stdin=subprocess.DEVNULL, stdout=(self.folder / "redis.log").open("ab"), stderr=subprocess.STDOUT,
        )  # fmt: skip
        until(self._answers, f"redis-server answers; see {self.folder}/redis.log")

    def _answers(self) -> bool:
        assert self.process.poll() is None, (self.folder / "redis.log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                pass
        except OSError:
            return False
        if "--tls-port" in self.arguments:
            return True
        try:
            return bool(self.client().ping())
        except redis.exceptions.AuthenticationError:
            return True
        except redis.exceptions.RedisError:  # still loading
            return False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Any:
        return redis.Redis(port=self.port)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    close = kill


PLAIN_REDIS = RedisSettings(timeout_ms=60_000)
"""It waits for a server that is only slow."""
