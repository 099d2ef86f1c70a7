"""Java: which version is needed, how to get it, and which one is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

JAVA_VERSION = 17
INSTALL_JAVA = "apt-get install openjdk-17-jre-headless (or any Java 17+; set JAVA_HOME)"


def java_version(text: str) -> int | None:
    """The feature version in what ``java -version`` prints: 17 of 17.0.9, 8 of 1.8.0."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def java_program(environ: Mapping[str, str] = os.environ) -> str | None:
    """The program that is started: of JAVA_HOME, else of the path."""
    home = environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else shutil.which("java", path=environ.get("PATH"))


def version_of(program: str) -> int | None:
    """The feature version that the program reports. Raises ``OSError`` or ``subprocess.TimeoutExpired``."""
    done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    return java_version(done.stderr + done.stdout)
