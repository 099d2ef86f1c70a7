#!/usr/bin/env bash
# Writes requirements.txt of each peer in Python from its requirements.in, with hashes. Needs a set-up .venv (for uv).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

for peer in bytewax pathway quix; do
    .venv/bin/uv pip compile "deploy/peers/$peer/requirements.in" -q --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-emit-find-links \
        --custom-compile-command 'deploy/peers/lock.sh' -o "deploy/peers/$peer/requirements.txt" "$@"
done
