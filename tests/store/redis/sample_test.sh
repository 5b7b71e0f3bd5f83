#!/usr/bin/env bash
# samples/redis_cluster/cluster.sh: starts three servers that agree, refuses to start twice, ends them all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
command -v redis-server redis-cli >/dev/null || { echo "skipped: redis-server is not installed (packaging/setup.sh test)"; exit 77; }

script=samples/redis_cluster/cluster.sh
temporary="$(mktemp -d)"
folder="$temporary/cluster"
port="$(python3 -c '
import random, socket
while True:
    first = random.randrange(20000, 45000)
    try:
        sockets = [socket.socket() for _ in range(6)]
        for i, s in enumerate(sockets):
            s.bind(("127.0.0.1", first + i % 3 + 10000 * (i // 3)))
        break
    except OSError:
        pass
print(first)')"
trap '"$script" stop "$folder" "$port"; rm -rf "$temporary"' EXIT

address="$("$script" start "$folder" "$port")"
[ "$address" = "127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))" ] || { echo "told $address"; exit 1; }
[ "$("$script" status "$folder" "$port" | grep -c 'master.*connected [0-9]')" = 3 ] || { echo "not three masters"; exit 1; }
redis-cli -c -p "$port" set key value >/dev/null
[ "$(redis-cli -c -p $((port + 2)) get key)" = value ] || { echo "not one cluster"; exit 1; }
if "$script" start "$folder" "$port" 2>/dev/null; then echo "started twice"; exit 1; fi
pids="$(cat "$folder"/*/pid)"
"$script" stop "$folder" "$port"
for pid in $pids; do
  if kill -0 "$pid" 2>/dev/null; then echo "server $pid is still there"; exit 1; fi
done
[ ! -e "$folder" ] || { echo "$folder is still there"; exit 1; }
echo "samples/redis_cluster: as its README says"
