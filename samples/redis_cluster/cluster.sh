#!/usr/bin/env bash
# Three Redis servers on this machine as one cluster, to try tables in Redis with. Needs redis-server (Debian: apt-get install
# redis-server). Data is in memory only: what stop ends is gone.
#
#   samples/redis_cluster/cluster.sh start|stop|status [FOLDER] [FIRST_PORT]
#
#   FOLDER       of the servers' files, made by start and removed by stop (default: dpi-redis-cluster in the temporary folder)
#   FIRST_PORT   the servers listen on three ports from here, and on those 10000 above (default: 7000)
set -euo pipefail

FOLDER="${2:-${TMPDIR:-/tmp}/dpi-redis-cluster}"
FIRST="${3:-7000}"
PORTS=("$FIRST" $((FIRST + 1)) $((FIRST + 2)))

say() { printf '==> %s\n' "$*" >&2; }

# until_says TEXT COMMAND...: waits 20 s at most for a command to print it.
until_says() {
  local text="$1" i
  shift
  for ((i = 0; i < 200; ++i)); do
    if "$@" 2>/dev/null | grep -q "$text"; then return; fi
    sleep 0.1
  done
  say "no '$text' from: $*; the servers' logs are in $FOLDER"
  exit 1
}

start() {
  local port addresses=()
  command -v redis-server >/dev/null || { say "redis-server is not installed: apt-get install redis-server"; exit 1; }
  if [ -e "$FOLDER" ]; then say "$FOLDER is there already: '$0 stop' ends and removes it"; exit 1; fi
  for port in "${PORTS[@]}"; do
    mkdir -p "$FOLDER/$port"
    redis-server --port "$port" --bind 127.0.0.1 --cluster-enabled yes --cluster-node-timeout 5000 --daemonize yes \
      --dir "$FOLDER/$port" --pidfile "$FOLDER/$port/pid" --logfile "$FOLDER/$port/log" --save '' --appendonly no >/dev/null
    until_says PONG redis-cli -p "$port" ping
    addresses+=("127.0.0.1:$port")
  done
  redis-cli --cluster create "${addresses[@]}" --cluster-yes >/dev/null
  for port in "${PORTS[@]}"; do until_says cluster_state:ok redis-cli -p "$port" cluster info; done
  say "ready; setting 'address':"
  (IFS=,; echo "${addresses[*]}")
}

stop() {
  local file pid
  for file in "$FOLDER"/*/pid; do
    pid="$(cat "$file" 2>/dev/null)" || continue  # read once: a server removes its file before it is gone
    kill "$pid" 2>/dev/null || true
    until_says gone bash -c "kill -0 $pid 2>/dev/null || echo gone"
  done
  rm -rf "$FOLDER"
}

case "${1:-}" in
  start) start ;;
  stop) stop ;;
  status) redis-cli -p "$FIRST" cluster nodes ;;
  *) sed -n '2,/^set/{/^set/!s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
