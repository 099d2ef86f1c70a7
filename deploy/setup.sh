#!/usr/bin/env bash
# Makes .venv from requirements.lock and puts `holon` into .venv/bin. Does nothing when all is in place.
# PYTHON=... chooses the interpreter, HOLON_JAVA=no leaves Java alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
STAMP=$VENV/.holon-setup

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 3; }

fingerprint() { cat requirements.lock pyproject.toml deploy/setup.sh | cksum; }

is_done() { [ -x "$VENV/bin/holon" ] && [ -f "$STAMP" ] && [ "$(cat "$STAMP")" = "$(fingerprint)" ]; }

# The lock is tested on these versions; ensurepip is missing on Debian until python3-venv is installed.
usable() {
    command -v "$1" >/dev/null 2>&1 &&
        "$1" -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null
}

choose_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if usable "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    die "needs Python 3.11, 3.12 or 3.13 with venv, and found none${PYTHON:+ (PYTHON=$PYTHON)}." \
        "Install one (Debian: apt-get install python3 python3-venv) or name it: make setup PYTHON=/path/to/python"
}

make_venv() {
    if usable "$VENV/bin/python"; then return; fi
    local python
    python=$(choose_python)
    say "making $VENV with $("$python" --version)"
    "$python" -m venv --clear "$VENV"
}

# One package's entry of the lock: its pin and the hashes that follow.
locked() { awk -v name="$1" '/^[a-z0-9]/ { on = index($0, name "==") == 1 } on && !/#/' requirements.lock; }

install_locked() {
    local pip=("$VENV/bin/python" -m pip --disable-pip-version-check -q)
    "${pip[@]}" --version >/dev/null 2>&1 || "$VENV/bin/python" -m ensurepip >/dev/null
    # uv is about twice as quick as pip, setuptools builds pyspark's source archive: both from the lock, with hashes.
    { locked uv; locked setuptools; } >"$VENV/bootstrap.txt"
    "${pip[@]}" install --require-hashes -r "$VENV/bootstrap.txt"
    if ! "$VENV/bin/uv" pip install -q --python "$VENV/bin/python" --require-hashes --no-build-isolation \
        -r requirements.lock; then
        say "uv could not install the lock file; trying pip, which may know another package source"
        "${pip[@]}" install --require-hashes --no-build-isolation -r requirements.lock
    fi
    "${pip[@]}" install --no-deps --no-build-isolation -e .
}

java_major() {
    local java=java
    if [ -n "${JAVA_HOME:-}" ] && [ -x "$JAVA_HOME/bin/java" ]; then java=$JAVA_HOME/bin/java; fi
    "$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -1
}

# Byte code of what nodes and tests import, also where the environment forbids Python to write it: without it every
# process compiles some 500 modules anew, which is most of a node's start.
write_byte_code() {
    env -u PYTHONDONTWRITEBYTECODE "$VENV/bin/python" -P -c \
        "import nodes.cli.commands.node, nodes.cli.child_node, nodes.streams.process, nodes.transactions.process, confluent_kafka, pytest, structlog"
}

# Spark and a local Kafka need Java; everything else works without, so a missing Java stops nothing here.
offer_java() {
    if [ "${HOLON_JAVA:-}" = no ] || [ "$(java_major || true)" -ge 17 ] 2>/dev/null; then return; fi
    local package=openjdk-17-jre-headless
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "no Java 17 or newer (Spark and a local Kafka need it); installing it with apt-get"
        export DEBIAN_FRONTEND=noninteractive
        { apt-get update -qq || true; } >/dev/null
        for package in openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless; do
            if apt-get install -y -qq "$package" >/dev/null; then return; fi
        done
    fi
    say "no Java 17 or newer: Spark and a local Kafka will not run. Install it, for example:" \
        "sudo apt-get install openjdk-17-jre-headless"
}

main() {
    if is_done; then return; fi
    mkdir -p .cache
    exec 9>.cache/setup.lock
    # Two makes at once: the second waits, and then finds the work done.
    if command -v flock >/dev/null; then flock 9; fi
    if is_done; then return; fi
    say "installing the locked packages into $VENV; this takes about 60 s"
    local before
    before=$(fingerprint)
    rm -f "$STAMP"
    make_venv
    install_locked
    offer_java
    write_byte_code || true
    # What numba compiles is kept for all checkouts; without it the first node that starts would do it.
    "$VENV/bin/python" -m nodes.compiled.loading || true
    printf '%s\n' "$before" >"$STAMP"
    say "done; the command is $VENV/bin/holon"
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then main; fi
