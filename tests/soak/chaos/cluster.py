"""A Redis cluster of three masters with a replica each, as redis-server of the system makes it, and what can happen to its servers."""

import contextlib
import ctypes
import shutil
import signal
import socket
import subprocess
import time

from stores import Redis

USER, PASSWORD, SLOTS = "dpi", "first-secret", 16384
NODE_TIMEOUT_MS = 2500  # a busy machine must not look like a dead server


def is_installed():
    return shutil.which("redis-server") is not None


def _ends_with_its_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, condition, seconds=30.0):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


class Server:
    """One redis-server without persistence. Callers log in as USER; the user `default` has no password and looks after the server."""

    def __init__(self, folder):
        self.folder, self.process = folder, None
        folder.mkdir(parents=True)
        for _ in range(5):
            self.port, self.bus = _free_port(), _free_port()
            (folder / "conf").write_text(
                f"port {self.port}\nbind 127.0.0.1\nsave \"\"\nappendonly no\ndir {folder}\nlogfile {folder}/log\nenable-debug-command yes\n"
                f"cluster-enabled yes\ncluster-port {self.bus}\ncluster-node-timeout {NODE_TIMEOUT_MS}\nrepl-diskless-sync-delay 0\n"
                f"cluster-require-full-coverage no\nuser {USER} on >{PASSWORD} ~* &* +@all\n")
            if self.start():
                return
        raise AssertionError(f"redis-server does not start; {folder}/log")

    def start(self):
        self.process = subprocess.Popen(["redis-server", str(self.folder / "conf")], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, preexec_fn=_ends_with_its_parent)
        for _ in range(500):
            if self.ask("PING") == b"PONG":
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.02)
        return False

    def ask(self, *words):
        """The answer; None if there is none, an error as AssertionError."""
        try:
            r = Redis(self.port)
            r.socket.settimeout(10)
        except OSError:
            return None
        try:
            return r.ask(*words)
        except (OSError, ValueError, IndexError):
            return None
        finally:
            r.close()

    def info(self, section, key):
        text = self.ask("INFO", section)
        lines = [] if text is None else text.decode().splitlines()
        return next((line.partition(":")[2] for line in lines if line.startswith(key + ":")), "")

    def is_master(self):
        return self.info("replication", "role") == "master"

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"


class Cluster:
    def __init__(self, folder):
        self.servers = []
        try:
            for i in range(6):
                self.servers.append(Server(folder / f"redis{i}"))
            self._join()
        except BaseException:
            self.close()
            raise

    def _join(self):
        first, masters, replicas = self.servers[0], self.servers[:3], self.servers[3:]
        for i, s in enumerate(masters):
            s.ask("CLUSTER", "ADDSLOTSRANGE", SLOTS * i // 3, SLOTS * (i + 1) // 3 - 1)
            s.ask("CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        for s in self.servers[1:]:
            first.ask("CLUSTER", "MEET", "127.0.0.1", s.port, s.bus)
        wait_for("the cluster is ok", lambda: all(b"cluster_known_nodes:6" in (s.ask("CLUSTER", "INFO") or b"") for s in self.servers))
        for master, replica in zip(masters, replicas):
            node = master.ask("CLUSTER", "MYID")
            wait_for("a replica knows its master", lambda r=replica, n=node: _accepted(r, "CLUSTER", "REPLICATE", n))
        self.wait_until_whole()

    def wait_until_whole(self):
        """Six servers: masters have all slots, replicas their rows, and everyone knows it."""
        def whole():
            slots = 0
            for s in self.servers:
                info = s.ask("CLUSTER", "INFO") or b""
                if b"cluster_state:ok" not in info or b"cluster_slots_ok:16384" not in info:
                    return False
                slots += s.is_master()
                if not s.is_master() and s.info("replication", "master_link_status") != "up":
                    return False
                if b"fail" in b"".join(line.split()[2] for line in (s.ask("CLUSTER", "NODES") or b"").splitlines()):
                    return False
            return slots == 3
        wait_for("the cluster is whole", whole, 60)

    def masters(self):
        return [s for s in self.servers if s.is_master()]

    def wait_until_taken_over(self, lost):
        """Another server has become master for the slots of one that is gone, and the live ones have all slots again."""
        alive = [s for s in self.servers if s is not lost]

        def covered():
            infos = [s.ask("CLUSTER", "INFO") or b"" for s in alive]
            return sum(s.is_master() for s in alive) == 3 and all(b"cluster_slots_ok:16384" in i and b"cluster_state:ok" in i for i in infos)
        wait_for("a replica takes over", covered, 60)

    def addresses(self):
        return ",".join(s.address for s in self.servers)

    def move_slot(self, slot, source, target):
        """With its keys, as redis-cli does it. Who gets it is told first: else both could name the other for good."""
        ids = {s: s.ask("CLUSTER", "MYID") for s in (source, target)}
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        for key in source.ask("CLUSTER", "GETKEYSINSLOT", slot, 1000):
            answer = source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 10000)
            assert answer == b"OK", (key, answer)
        for s in [target, source] + [s for s in self.servers if s not in (source, target)]:
            with contextlib.suppress(AssertionError):  # replicas do not take the command
                s.ask("CLUSTER", "SETSLOT", slot, "NODE", ids[target])

    def close(self):
        for s in self.servers:
            s.kill()


def _accepted(server, *words):
    try:
        return server.ask(*words) == b"OK"
    except AssertionError:
        return False
