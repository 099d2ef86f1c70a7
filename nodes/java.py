"""Java: which version is needed, how to get it, and which one is there."""

from __future__ import annotations

import re

JAVA_VERSION = 17
INSTALL_JAVA = "apt-get install openjdk-17-jre-headless (or any Java 17+; set JAVA_HOME)"


def java_version(text: str) -> int | None:
    """The feature version in what ``java -version`` prints: 17 of 17.0.9, 8 of 1.8.0."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None
