"""The engineer on call: sees what a service shows (metrics.json, service.log, the log of its loader) and `dpi store stat`, nothing else, and
writes what is wrong into diagnoses.jsonl as soon as there is a sign of it.

    python3 on_call.py FOLDER        reads watch.json, ends when the file `stop` is there

What can be told apart, and by which sign:

    node down           a server refuses connections                 last_error_text of a node
    no answer           a server takes connections and is silent     last_error DPI_E_TIMEOUT of a node
    login refused       a server refuses user or password            last_error_text of a node
    rows lost           partitions are gone                          last_error_text of a store; `dpi store stat` names them
    evicted             the server's memory limit took them          `dpi store stat` names maxmemory and its policy
    slow                reads take long and none fails               oldest_fetch_ms of a store
    moved               servers send on to others                    redirects of a node rise
    disk full           rows cannot be written                       the loader's log
"""

import contextlib
import json
import pathlib
import subprocess
import sys
import threading
import time

SLOW_MS, SLOW_SAMPLES, CALM_S, STAT_EVERY_S = 150, 3, 2.0, 1.0


def kind_of_failure(text, code):
    if "refused: " in text or "NOAUTH" in text or "WRONGPASS" in text:
        return "login refused"
    if "connection refused" in text.lower():
        return "node down"
    if " is gone" in text or "has lost" in text or "lost" in text:
        return "rows lost"
    return "no answer" if code == "DPI_E_TIMEOUT" and "connections were in use" not in text else None


class OnCall:
    def __init__(self, folder):
        self.folder, self.watch = folder, json.loads((folder / "watch.json").read_text())
        self.out, self.lock = open(folder / "diagnoses.jsonl", "a", buffering=1), threading.Lock()
        self.seen, self.slow, self.last_failure, self.last_at = {}, {}, 0.0, 0.0
        self.read = {"service.log": 0, "loader.log": 0}

    def say(self, kind, why):
        with self.lock:
            self.out.write(json.dumps({"at": time.monotonic(), "kind": kind, "why": why}) + "\n")

    def rose(self, key, value):
        """Whether a counter is higher than when it was looked at last; the first look says nothing."""
        before, self.seen[key] = self.seen.get(key, value), value
        return value > before

    def look_at_health(self, key, health, title):
        if not self.rose(key, health["failures"]):
            return
        self.last_failure = time.monotonic()
        kind = kind_of_failure(health["last_error_text"], health["last_error"])
        if kind is not None:
            self.say(kind, f"{title}: {health['last_error']} {health['last_error_text']}")

    def look_at_metrics(self):
        with contextlib.suppress(OSError, ValueError):
            metrics = json.loads((self.folder / "metrics.json").read_text())
            if metrics["at"] == self.last_at:
                return
            self.last_at = metrics["at"]
            for model, counters in metrics["models"].items():
                for store in counters["stores"]:
                    self.look_at_store((model, store["name"]), store)

    def look_at_store(self, key, store):
        for node in store["nodes"]:
            title = f"{key[0]}: {store['name']} {node['name']}"
            self.look_at_health(key + (node["name"],), node, title)
            if self.rose(key + (node["name"], "redirects"), node["redirects"]):
                self.say("moved", f"{title} sent commands on ({node['redirects']} so far)")
        # A store's text may be that of one node; a store tells of rows, its nodes of themselves.
        if self.rose(key, store["failures"]):
            self.last_failure = time.monotonic()
            if kind_of_failure(store["last_error_text"], store["last_error"]) == "rows lost":
                self.say("rows lost", f"{key[0]}: {store['last_error_text']}")
        slow = store["oldest_fetch_ms"] >= SLOW_MS and time.monotonic() - self.last_failure > CALM_S
        self.slow[key] = self.slow.get(key, 0) + 1 if slow else max(0.0, self.slow.get(key, 0) - 0.5)
        if self.slow[key] >= SLOW_SAMPLES:
            self.say("slow", f"{key[0]}: a read of {store['name']} has been under way for {store['oldest_fetch_ms']:.0f} ms")

    def look_at_logs(self):
        for name in self.read:
            with contextlib.suppress(OSError), open(self.folder / name, "rb") as log:
                log.seek(self.read[name])
                for line in log.read().splitlines(keepends=True):
                    if not line.endswith(b"\n"):
                        break
                    self.read[name] += len(line)
                    self.look_at_line(line.decode(errors="replace").strip())

    def look_at_line(self, line):
        if "No space left on device" in line:
            self.say("disk full", line)

    def stat_failed(self, text):
        """A server that does not answer is told by the metrics, a table whose record is lost by nobody else."""
        if "is not there" in text or "its record" in text:
            self.say("evicted" if "evicts keys" in text else "rows lost", f"dpi store stat: {text}")

    def ask_stores(self):
        """`dpi store stat` from time to time."""
        while not (self.folder / "stop").exists():
            with contextlib.suppress(subprocess.TimeoutExpired, ValueError):
                done = subprocess.run(self.watch["stat"], capture_output=True, text=True, timeout=15)
                with open(self.folder / "stat.log", "a") as log:
                    log.write(f"{time.monotonic():.3f} exit {done.returncode}: {' '.join((done.stdout + done.stderr).split())}\n")
                if done.returncode == 5 and not done.stdout:
                    self.stat_failed(" ".join(done.stderr.split()))
                for table in json.loads(done.stdout)["tables"] if done.returncode in (0, 5) and done.stdout else []:
                    if table["missing"]:
                        kind = "evicted" if "evicts keys" in table["missing"] else "rows lost"
                        self.say(kind, f"dpi store stat: {table['name']}: {table['missing_rows']} rows, {table['missing']}")
            time.sleep(STAT_EVERY_S)

    def run(self):
        asking = threading.Thread(target=self.ask_stores)
        asking.start()
        while not (self.folder / "stop").exists():
            self.look_at_metrics()
            self.look_at_logs()
            time.sleep(0.05)
        asking.join()


if __name__ == "__main__":
    OnCall(pathlib.Path(sys.argv[1])).run()
