#!/bin/bash
# Runs a command beside a `systemd --user` of its own, then ends both and whatever they started.
#
#   user-systemd.sh COMMAND [ARGS…]
#
# Needs root and the Debian packages systemd and dbus-user-session; works on a machine systemd did not boot. The command
# gets XDG_RUNTIME_DIR, DBUS_SESSION_BUS_ADDRESS and HOME of the new user session. Its exit status is ours; 125 when the
# manager could not be started. SYSTEMD_USER names another manager binary.
#
# Mounts, runtime directory and control group are private to a run. A janitor of its own waits for the end of this
# script, however it comes (SIGKILL too), and takes everything down.
set -u

die() { echo "user-systemd: $*" >&2; exit 125; }

manager_binary=${SYSTEMD_USER:-/lib/systemd/systemd}
if [ "${1-}" != --inside ]; then
  [ $# -gt 0 ] || die 'no command given'
  [ "$(id -u)" = 0 ] || die 'needs root'
  [ -x "$manager_binary" ] || die "no $manager_binary: install the package systemd"
  command -v dbus-daemon >/dev/null || die 'no dbus-daemon: install the package dbus-user-session'
  exec unshare --mount --propagation private -- bash "$(realpath -- "$0")" --inside "$@"
fi
shift

base=$(mktemp -d /tmp/phk-systemd.XXXXXX) || die 'no temporary directory' # short: a socket path has 107 bytes
cgroup=/sys/fs/cgroup/${base##*/}
umount -R /sys/fs/cgroup 2>/dev/null
mount -t cgroup2 none /sys/fs/cgroup || { rm -rf -- "$base"; die 'no cgroup v2'; }

runs() { [ -e "/proc/$1/stat" ] && ! grep -q ') Z' "/proc/$1/stat"; } # a zombie whose parent was killed runs no more

take_down() {
  local try pid
  pid=$(cat "$base/manager.pid" 2>/dev/null)
  if [ -n "$pid" ]; then
    kill -RTMIN+24 "$pid" 2>/dev/null # exit.target
    for try in $(seq 100); do runs "$pid" 2>/dev/null || break; sleep 0.05; done
  fi
  for try in $(seq 200); do
    [ -d "$cgroup" ] || break
    if [ -w "$cgroup/cgroup.kill" ]; then
      echo 1 >"$cgroup/cgroup.kill"
    else
      find "$cgroup" -name cgroup.procs -exec cat {} + | xargs -r kill -KILL
    fi 2>/dev/null
    find "$cgroup" -depth -type d -exec rmdir {} + 2>/dev/null
    sleep 0.02
  done
  rm -rf -- "$base"
}

# The janitor's standard input is a pipe whose only writer is this script: children get it closed.
exec {life}> >(trap '' TERM INT HUP; exec >/dev/null 2>&1; cat; take_down)
janitor=$!
finish() {
  trap - EXIT
  trap '' TERM INT HUP
  exec {life}>&-
  wait "$janitor" 2>/dev/null
}
trap finish EXIT
command='' caught=''
for signal in TERM INT HUP; do
  # shellcheck disable=SC2064
  trap "caught=$signal; [ -z \"\$command\" ] || kill -TERM \"\$command\" 2>/dev/null" "$signal"
done

mkdir -p "$cgroup/manager" "$cgroup/command" || die 'no control group of our own'
mount -t tmpfs -o mode=0755 none /run/systemd || die 'no /run/systemd'
mkdir -p /run/systemd/system # says: this machine runs systemd

export XDG_RUNTIME_DIR=$base/run HOME=$base/home
export DBUS_SESSION_BUS_ADDRESS=unix:path=$XDG_RUNTIME_DIR/bus
mkdir -m 0700 "$XDG_RUNTIME_DIR" "$HOME" || die 'no runtime directory'
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME NOTIFY_SOCKET INVOCATION_ID MANAGERPID SYSTEMD_EXEC_PID

# What the machine's packages would start in a user session and nobody needs here.
mkdir -p "$XDG_RUNTIME_DIR/systemd/user"
for unit in gpg-agent{,-browser,-extra,-ssh}.socket keyboxd.socket dirmngr.socket pk-debconf-helper.socket \
  systemd-tmpfiles-setup.service systemd-tmpfiles-clean.timer; do
  ln -s /dev/null "$XDG_RUNTIME_DIR/systemd/user/$unit"
done

(
  exec {life}>&-
  echo "$BASHPID" >"$cgroup/manager/cgroup.procs" || exit 1
  echo "$BASHPID" >"$base/manager.pid"
  exec env -i HOME="$HOME" USER=root LOGNAME=root SHELL=/bin/bash LANG=C.UTF-8 \
    PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    XDG_RUNTIME_DIR="$XDG_RUNTIME_DIR" DBUS_SESSION_BUS_ADDRESS="$DBUS_SESSION_BUS_ADDRESS" \
    SYSTEMD_LOG_TARGET=console "$manager_binary" --user >"$base/manager.log" 2>&1 </dev/null
) &
manager=$!

state=''
for _ in $(seq 400); do
  state=$(systemctl --user is-system-running 2>/dev/null {life}>&-)
  case $state in running | degraded) break ;; esac
  kill -0 "$manager" 2>/dev/null && [ -z "$caught" ] || break
  sleep 0.05
done
case $state in running | degraded) ;; *)
  cat "$base/manager.log" >&2
  die "the manager did not start (${state:-no answer})"
  ;;
esac

status=0
if [ -z "$caught" ]; then
  (
    exec {life}>&-
    echo "$BASHPID" >"$cgroup/command/cgroup.procs" || exit 125
    trap - TERM INT HUP EXIT
    exec "$@"
  ) <&0 &
  command=$!
  while :; do
    wait "$command"
    status=$?
    kill -0 "$command" 2>/dev/null || break # wait also returns for a signal we caught: the command is then still there
    [ -z "$caught" ] || { for _ in $(seq 60); do kill -0 "$command" 2>/dev/null || break; sleep 0.05; done; kill -KILL "$command" 2>/dev/null; }
  done
fi
case $caught in TERM) status=143 ;; INT) status=130 ;; HUP) status=129 ;; esac
exit "$status"
