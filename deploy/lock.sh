#!/usr/bin/env bash
# Writes requirements.lock: every extra and the developers' tools, with hashes, for Python 3.11 to 3.13.
# Keeps the pins that still fit; --upgrade takes the newest versions. Needs a set-up .venv (for uv).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# No addresses of package sources in the file: where packages come from is the installing machine's affair.
.venv/bin/uv pip compile pyproject.toml -q --all-extras --group dev --universal --python-version 3.11 \
    --generate-hashes --no-emit-index-url --no-emit-find-links \
    --custom-compile-command 'make lock' -o requirements.lock "$@"
