"""What the chaos test does to the stores. Each fault begins, holds for some seconds and is undone; end() gives the moment at which the store is
back: it can answer every row again."""

import contextlib
import ctypes
import os
import random
import signal
import threading
import time

from cluster import PASSWORD, USER, wait_for

CLONE_NEWNS = 0x20000


class Fault:
    """world: cluster, program, paths (chaos.py). hold: seconds."""

    least_s = 0.0

    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        # One whose rows are asked for: what happens to another is nobody's fault.
        self.target = rng.choice([s for s in world.cluster.masters() if len(s.ask("KEYS", "dpi1:*")) >= 8])
        self.what = f"{self.kind} of {self.target.address}"

    @property
    def kind(self):
        return type(self).__name__.lower()

    def repair(self):
        wait_for("dpi store load repairs", lambda: self.world.load_redis().returncode == 0, 60)
        return time.monotonic()


class Kill(Fault):
    def begin(self):
        self.target.kill()

    def end(self):
        self.world.cluster.wait_until_taken_over(self.target)
        back = time.monotonic()
        assert self.target.start()
        return back

    def after(self):
        self.world.cluster.wait_until_whole()


class Stop(Fault):
    def begin(self):
        self.target.signal(signal.SIGSTOP)

    def end(self):
        self.world.cluster.wait_until_taken_over(self.target)
        back = time.monotonic()
        self.target.signal(signal.SIGCONT)
        return back

    after = Kill.after


class Empty(Fault):
    """All rows of a shard, or a few partitions."""

    def begin(self):
        keys = [k for k in self.target.ask("KEYS", "dpi1:*") if not k.endswith(b"table}")]
        some = self.rng.sample(keys, len(keys) // 2)
        if self.rng.random() < 0.5:
            self.what = f"FLUSHALL of {self.target.address}"
            self.target.ask("FLUSHALL")
        else:
            self.what = f"DEL of {len(some)} partitions of {self.target.address}"
            for key in some:
                self.target.ask("DEL", key)

    def end(self):
        return self.repair()


class Password(Fault):
    def change(self, password):
        for s in self.world.cluster.servers:
            s.ask("ACL", "SETUSER", USER, "resetpass", ">" + password)

    def begin(self):
        self.what = "another password on all servers"
        self.change("second-secret")
        for s in self.world.cluster.servers:  # connections that have logged in would go on
            s.ask("CLIENT", "KILL", "USER", USER)

    def end(self):
        self.change(PASSWORD)
        return time.monotonic()


class Evict(Fault):
    def begin(self):
        used = int(self.target.info("memory", "used_memory"))
        self.what = f"maxmemory allkeys-lru of {self.target.address}"
        self.target.ask("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        self.target.ask("CONFIG", "SET", "maxmemory", used - 1_000_000)

    def end(self):
        self.target.ask("CONFIG", "SET", "maxmemory", 0)
        self.target.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
        return self.repair()


class Slow(Fault):
    """Commands wait for up to 0.5 s each."""

    def begin(self):
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.done.is_set():
            self.target.ask("CLIENT", "PAUSE", 500, "ALL")
            self.done.wait(0.55)

    def end(self):
        self.done.set()
        self.thread.join()
        self.target.ask("CLIENT", "UNPAUSE")
        return time.monotonic()


class Reshard(Fault):
    """Partitions go to another server while they are read."""

    def begin(self):
        other = self.rng.choice([s for s in self.world.cluster.masters() if s is not self.target])
        slots = sorted({self.target.ask("CLUSTER", "KEYSLOT", k) for k in self.target.ask("KEYS", "dpi1:*")})
        slots = self.rng.sample(slots, len(slots) // 2)
        self.what = f"{len(slots)} slots from {self.target.address} to {other.address}"
        for slot in slots:
            self.world.cluster.move_slot(slot, self.target, other)
            time.sleep(0.05)

    def end(self):
        return time.monotonic()


class Disk(Fault):
    """The disk of the RocksDB store is full while the next bundle is loaded into it."""

    def begin(self):
        self.what = "disk of the RocksDB store, " + self.world.disk.how
        with self.world.disk.full() as environment:
            failed = self.world.load_rocksdb(environment)
        assert failed.returncode == 5 and "No space left" in failed.stderr, (failed.returncode, failed.stderr)

    def end(self):
        done = self.world.load_rocksdb({})
        assert done.returncode == 0, done.stderr
        self.world.drop_rocksdb()
        return time.monotonic()


KINDS = {k.__name__.lower(): k for k in (Kill, Stop, Empty, Password, Evict, Slow, Reshard, Disk)}


class SmallDisk:
    """A small disk for a store: a tmpfs in a mount namespace of this process where root may make one, else a preloaded library that answers
    ENOSPC to the loader (tests/store/engine/full_disk.c)."""

    BYTES = 64 << 20

    def __init__(self, folder, preload):
        self.folder, self.preload = folder, preload
        folder.mkdir(parents=True)
        libc, none = ctypes.CDLL(None, use_errno=True), ctypes.c_char_p(None)
        MS_REC_PRIVATE = 0x4000 | 0x40000
        self.mounted = (libc.unshare(CLONE_NEWNS) == 0 and libc.mount(none, b"/", none, ctypes.c_ulong(MS_REC_PRIVATE), none) == 0
                        and libc.mount(b"none", str(folder).encode(), b"tmpfs", ctypes.c_ulong(0), f"size={self.BYTES}".encode()) == 0)
        self.how = "a tmpfs" if self.mounted else "a library that says so"

    @contextlib.contextmanager
    def full(self):
        """The environment for a program that finds the disk full."""
        if not self.mounted:
            yield {"LD_PRELOAD": str(self.preload), "DPI_TEST_DISK_FOLDER": str(self.folder), "DPI_TEST_DISK_BYTES": "100000"}
            return
        filler = self.folder / "filler"
        with open(filler, "wb") as f, contextlib.suppress(OSError):
            while os.statvfs(self.folder).f_bavail * os.statvfs(self.folder).f_bsize > 200_000:
                f.write(b"\0" * 65536)
                f.flush()
        try:
            yield {}
        finally:
            filler.unlink()


def drawn(seed, seconds):
    """Kinds of faults and how long they hold, without end: every kind once in any order, then again. `seconds`: the range to draw from."""
    rng = random.Random(seed)
    while True:
        kinds = list(KINDS)
        rng.shuffle(kinds)
        for kind in kinds:
            yield kind, rng.uniform(*seconds), random.Random(rng.random())
