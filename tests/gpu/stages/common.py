"""What the stages of validate.sh share: the pack's programs, the results file, time left. Environment, set by validate.sh:
PACK (root of the pack), OUT (results), WORK (scratch), DPI_GPU_DRY (1 = tiny sizes on the emulated device and CPU torch), STAGE,
DEADLINE (seconds since the epoch at which this stage should be done)."""

import json
import os
import pathlib
import subprocess
import sys
import threading
import time
import traceback

PACK = pathlib.Path(os.environ.get("PACK", pathlib.Path(__file__).resolve().parents[3]))
OUT = pathlib.Path(os.environ.get("OUT", "."))
WORK = pathlib.Path(os.environ.get("WORK", "."))
DRY = os.environ.get("DPI_GPU_DRY") == "1"
STAGE = os.environ.get("STAGE", "-")
DEVICE = "cuda_emu" if DRY else "cuda"
PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
TOLERANCE = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 4e-2}  # |logit - reference| / (1 + |reference|)
BACKENDS = PACK / "lib" / "backends"

_failed = 0


def left():
    """Seconds until this stage should be done."""
    return float(os.environ.get("DEADLINE", time.time() + 3600)) - time.time()


def emit(what, status, **fields):
    """Appends one record. A status other than ok, skipped and, where not required, unsupported makes the stage fail. On a dry run an
    unsupported combination is a fact to record: the kernels may still be on their way."""
    global _failed
    required = fields.pop("required", True)
    bad = status not in ("ok", "skipped") and not (status == "unsupported" and (DRY or not required))
    record = {"stage": STAGE, "what": what, "status": status, **fields}
    if DRY:
        record["dry"] = True
    if bad:
        _failed += 1
        record["counts"] = "failure"
    with open(OUT / "results.jsonl", "a") as f:
        f.write(json.dumps(record) + "\n")
    print(" ".join(f"{k}={_short(v)}" for k, v in record.items() if k not in ("stage", "dry", "chosen", "profile", "timeline", "kernels")), flush=True)
    return record


def _short(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:200]


def environment():
    """For the pack's own programs only: torch keeps its own libraries."""
    libraries = ":".join(p for p in (str(PACK / "lib"), os.environ.get("DPI_CUBLAS_DIR", "")) if p)
    return {**os.environ, "LD_LIBRARY_PATH": libraries, "DPI_BACKEND_DIR": str(BACKENDS), "DPI_TEST_ROOT": str(PACK)}


def program(name):
    return str(PACK / "bin" / name)


def test(name):
    """The command of one of ctest's tests: its area's program, and the filter that leaves its cases. pack.sh writes the file."""
    commands = PACK / "tests/gpu/test_commands.json"
    first, *rest = json.loads(commands.read_text())[name] if commands.exists() else [name]
    return [program(first), *rest]


def run(command, seconds=None, **more):
    """(exit status, text of stdout and stderr); 124 when it ran out of time."""
    limit = max(1.0, min(seconds or left(), left()))
    try:
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False,
                              **more)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as e:
        return 124, (e.stdout or b"").decode(errors="replace") if isinstance(e.stdout, bytes) else (e.stdout or "")
    except OSError as e:
        return 127, str(e)


def stream(name, command, end, text="", ours=True):
    """Starts a program that gets `text` as its standard input and answers in JSON lines; yields them as they come, until the time is up. Its standard
    error goes to a file, so that nobody has to read it for the program to go on. Afterwards `end` holds its exit status, the end of what it
    wrote there, and whether it was ended for being late."""
    given, errors = (WORK / f"{STAGE}.{name}.{what}" for what in ("in", "log"))
    given.write_text(text)
    end.update(exit=127, log="", late=False)
    with open(given) as source, open(errors, "w+") as log:
        child = subprocess.Popen(command, env=environment() if ours else None, stdin=source, stdout=subprocess.PIPE, stderr=log, text=True)
        killer = threading.Timer(max(0.5, left()), child.kill)
        killer.start()
        try:
            for line in child.stdout:
                if not line.endswith("\n"):
                    break  # it was ended in the middle of one
                yield json.loads(line)
        except BaseException:
            child.kill()
            raise
        finally:
            child.stdout.close()
            end.update(exit=child.wait(), late=left() < 1)
            killer.cancel()
            log.seek(0)
            end["log"] = log.read()[-800:]


def answers(name, jobs):
    """Feeds jobs to one of the pack's job programs and yields its result lines as they come, until the time is up."""
    jobs, end, seen = list(jobs), {}, 0
    for result in stream(name, [program(name)], end, "".join(json.dumps(j) + "\n" for j in jobs)):
        seen += 1
        yield result
    short(f"{name}: {{}} of {{}} jobs answered", seen, sum(len(j.get("variants", [0])) for j in jobs), end)


def short(what, seen, wanted, end):
    """A record where fewer results came than were wanted. That the time was up is no failure."""
    if seen < wanted or end["exit"] != 0 and not end["late"]:
        emit(what.format(seen, wanted), "skipped" if end["late"] else "failed", why="out of time" if end["late"] else end["log"] or f"exit {end['exit']}")


_torch = None


def torch_here():
    """Whether the interpreter has torch; without importing it. What needs it is skipped where it is missing, and what it would have been compared with
    comes from the cpu backend."""
    global _torch
    if _torch is None:
        code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
        _torch = subprocess.run([os.environ.get("PYTHON", "python3"), "-c", code], check=False).returncode == 0
    return _torch


def require(condition, what):
    if not condition:
        raise SystemExit(what)


def main(stage):
    """Runs a stage; what it raises becomes a record. Exit status 1 when anything counted as a failure."""
    try:
        stage()
    except SystemExit as e:
        emit("stage", "failed", error=str(e))
    except Exception:  # a stage never stops the rest, and its records stay
        emit("stage", "failed", error=traceback.format_exc()[-1500:])
    sys.exit(1 if _failed else 0)
