"""What a measurement says of the machine it ran on: load, huge pages, the disk, the page cache of a file."""

import os
import pathlib
import re
import subprocess


def drop_page_cache(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)  # only clean pages go
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def cached_share(path):
    """Of the file in the page cache, by util-linux's fincore; None without it."""
    try:
        done = subprocess.run(["fincore", "-b", "-n", "-o", "RES", str(path)], capture_output=True, text=True, check=True)
        return int(done.stdout.split()[0]) / os.path.getsize(path)
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return None


def memory():
    """Bytes of anonymous memory of this process, and those of them in huge pages."""
    text = pathlib.Path("/proc/self/smaps_rollup").read_text()
    kib = {k: int(v) for k, v in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    return {"anonymous": kib["Anonymous"] * 1024, "huge": kib["AnonHugePages"] * 1024}


def load():
    return os.getloadavg()[0]


def random_reads(program, path, seconds):
    """{threads: random 4 KB reads per second of the disk}, past the page cache, or None where the file system refuses that."""
    done = subprocess.run([program, str(path), str(seconds)], capture_output=True, text=True)
    if done.returncode != 0:
        return None
    return {int(t): float(n) for t, n in (line.split() for line in done.stdout.splitlines())}
