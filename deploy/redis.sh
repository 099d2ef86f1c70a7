#!/usr/bin/env bash
# Prints the path of redis-server; installs it with apt-get where it is missing and that is allowed. Starts nothing.
# HOLON_REDIS_SERVER names another program of the kind (valkey-server).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGE=redis-server
POLICY=/usr/sbin/policy-rc.d

die() { printf 'redis: %s\n' "$*" >&2; exit 3; }

find_server() {
    local candidate
    for candidate in ${HOLON_REDIS_SERVER:-redis-server valkey-server}; do
        if command -v "$candidate"; then return; fi
    done
    return 1
}

# Debian starts what it installs, on port 6379; this file forbids it.
forbid_services() {
    if [ -e "$POLICY" ]; then return; fi
    printf '#!/bin/sh\nexit 101\n' >"$POLICY"
    chmod 755 "$POLICY"
    trap 'rm -f "$POLICY"' EXIT
}

install_server() {
    forbid_services
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq || true; } >/dev/null
    apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$PACKAGE" </dev/null >/dev/null
}

main() {
    if find_server; then return; fi
    if [ -n "${HOLON_REDIS_SERVER:-}" ]; then die "HOLON_REDIS_SERVER=$HOLON_REDIS_SERVER is no program"; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        die "redis-server is not installed, and this user cannot install it:" \
            "sudo apt-get install redis-server (or another package with redis-server or valkey-server)"
    fi
    mkdir -p .cache
    exec 9>.cache/redis.lock
    # Two at once: the second waits, and then finds it installed.
    if command -v flock >/dev/null; then flock 9; fi
    if find_server; then return; fi
    printf 'redis: installing %s with apt-get\n' "$PACKAGE" >&2
    install_server || die "apt-get could not install $PACKAGE; see above"
    find_server || die "$PACKAGE was installed, but no redis-server is on the path"
}

main
