#!/usr/bin/env bash
# Usage: ci/install.sh PACKAGE... Installs the missing ones of these Debian packages; the other scripts call it.
# Needs: root and the network if any is missing. Takes: a second if none is.
set -euo pipefail
missing=()
for package; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
    echo "missing Debian packages: ${missing[*]}; install them, or run this as root" >&2
    exit 1
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
