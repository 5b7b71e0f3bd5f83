"""A program's processor time and peak of resident memory.

Linux counts a process's peak from before it became its program: whoever starts one lends it his own. So the program is started by a
small process, this file run without packages, which adds 10 MiB at most."""

import json
import os
import resource
import subprocess
import sys


def measured(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cpu_seconds=None, memory=None):
    """(exit status, text on standard error, seconds of processor time, peak in bytes) of a command, within limits of time and address
    space. stdout: where its output goes; subprocess.STDOUT: to the text."""
    read, write = os.pipe()
    starter = [sys.executable, "-I", "-S", os.path.abspath(__file__), json.dumps([write, cpu_seconds, memory]), *map(str, command)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if stdout == subprocess.STDOUT else \
        {"stdout": stdout, "stderr": subprocess.PIPE}
    with subprocess.Popen(starter, stdin=stdin, pass_fds=[write], **streams) as p:
        os.close(write)
        text = (p.stderr or p.stdout).read().decode(errors="replace")
        with os.fdopen(read) as f:
            status, seconds, peak = json.load(f)
    return status, text, seconds, peak


def _start(write, cpu_seconds, memory):
    for what, value in ((resource.RLIMIT_CPU, cpu_seconds), (resource.RLIMIT_AS, memory)):
        if value is not None:
            resource.setrlimit(what, (value, value))
    os.set_inheritable(write, False)
    _, status, used = os.wait4(os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ), 0)
    os.write(write, json.dumps([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]).encode())


if __name__ == "__main__":
    _start(*json.loads(sys.argv[1]))
