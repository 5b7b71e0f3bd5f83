"""A real redis-server for a test, on a free port of this machine."""

import contextlib
import shutil
import socket
import subprocess
import time


def is_installed():
    return shutil.which("redis-server") is not None


@contextlib.contextmanager
def redis_server(folder):
    """Its port; it ends with the block."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
                              stdout=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
                break
            time.sleep(0.05)
        yield port
    finally:
        server.kill()
        server.wait()
