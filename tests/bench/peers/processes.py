"""An engine's process: started, asked, stopped between its turns."""

import json
import os
import pathlib
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


class Refused(Exception):
    """An engine that cannot make this model, or whose scores are wrong."""


class Process:
    def __init__(self, job, a):
        python = a.litert_python if job["engine"] == "litert" else sys.executable
        paths = [str(a.build / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
        own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": str(job["threads"]), "PYTHONDONTWRITEBYTECODE": "1"}
        own.setdefault("DPI_LIBRARY", str(a.build / "lib/libdpi.so.1"))
        self.errors = pathlib.Path(job["folder"]) / "stderr.txt"
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen([python, "-W", "ignore", HERE / "worker.py", json.dumps(job)], env=own, text=True,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.process.send_signal(signal.SIGSTOP)

    def ask(self, what):
        """Its answer; Refused with the reason where it has none."""
        self.process.send_signal(signal.SIGCONT)
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        self.process.send_signal(signal.SIGSTOP)
        if not line:
            raise Refused(f"its process ended: {self.errors.read_text(errors='replace').strip()[-400:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
