#!/usr/bin/env bash
# Installs what the whole test suite runs beside node, where that is possible: as root on Debian. Elsewhere it says
# what is missing, and the suites that need it skip visibly.
set -euo pipefail

# command or file of each package
declare -A needed=(
  [systemd]=/lib/systemd/systemd
  [dbus-user-session]=/usr/lib/systemd/user/dbus.socket
  [tmux]=tmux [vim]=vim [less]=less [nano]=nano [procps]=ps
)
missing=()
for package in "${!needed[@]}"; do
  proof=${needed[$package]}
  case $proof in
    /*) [ -e "$proof" ] || missing+=("$package") ;;
    *) command -v "$proof" >/dev/null || missing+=("$package") ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "ci-packages: not installed here: ${missing[*]}" >&2
  exit 0
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
apt-get install -q -y --no-install-recommends "${missing[@]}"
