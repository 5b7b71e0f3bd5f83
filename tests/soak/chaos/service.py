"""The service of the chaos test: models over the stores, callers in an open loop, and what a service shows of itself: metrics.json (the
library's counters of each model) ten times a second, and service.log (the library's messages).

    python3 service.py FOLDER        reads spec.json, ends when the file `stop` is there, leaves calls.jsonl

A call that is planned is made when its time comes, whatever became of those before; `begin` and `end` are of the call alone. Two threads do
nothing but sleep: what they wake up too late is what this machine adds to any time here."""

import collections
import ctypes
import json
import pathlib
import sys
import threading
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[2] / "store/update"), str(HERE.parents[2] / "parity")]

from engine import Batch, Engine, EngineError, Error, Model, RunOptions  # noqa: E402
from models import ROWS, Oracle  # noqa: E402

CALLERS, DEADLINES_MS, CONTROL_S, HOT = 24, (300, 600, 1000), 0.02, 300
DPI_LOG_INFO = 1


class Environment:
    """Where the library's messages are kept for polling."""

    def __init__(self, lib):
        self.lib, self.handle, error = lib, ctypes.c_void_p(), Error(struct_size=ctypes.sizeof(Error))
        lib.dpi_env_create.argtypes = [ctypes.c_void_p] * 2
        lib.dpi_env_set_log.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int32, ctypes.c_void_p]
        lib.dpi_env_poll_log.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p]
        lib.dpi_env_poll_log.restype = ctypes.c_size_t
        lib.dpi_options_set_env.argtypes = [ctypes.c_void_p] * 3
        assert lib.dpi_env_create(ctypes.byref(self.handle), ctypes.byref(error)) == 0, error.message
        assert lib.dpi_env_set_log(self.handle, None, None, DPI_LOG_INFO, ctypes.byref(error)) == 0, error.message

    def messages(self):
        text = ctypes.create_string_buffer(4096)
        while self.lib.dpi_env_poll_log(self.handle, text, len(text), None) > 0:
            yield text.value.decode(errors="replace")


class Served(Model):
    """A model in an environment, asked with deadlines."""

    def __init__(self, lib, path, options, env):
        self.env = env
        super().__init__(lib, path, options)
        lib.dpi_model_counters_json.restype = ctypes.c_size_t
        lib.dpi_model_counters_json.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]

    def _call(self, function, *arguments):
        if function is self.lib.dpi_model_load:
            super()._call(self.lib.dpi_options_set_env, arguments[1], self.env.handle)
        super()._call(function, *arguments)

    def scores(self, users, items, deadline_ns):
        ids, out = np.stack([users, items], axis=1), np.full(len(users), np.nan, np.float32)
        batch = Batch(struct_size=ctypes.sizeof(Batch), rows=len(users), ids=ids.ctypes.data, nnz=ids.size)
        run = RunOptions(struct_size=ctypes.sizeof(RunOptions), deadline_ns=deadline_ns)
        self._call(self.lib.dpi_predict, self.handle, ctypes.byref(batch), out.ctypes.data, out.size, ctypes.byref(run))
        return out.tolist()

    def counters(self):
        text = ctypes.create_string_buffer(1 << 16)
        assert self.lib.dpi_model_counters_json(self.handle, text, len(text)) <= len(text)
        return json.loads(text.value)


class Plan:
    """Arrivals of one model: seeded, a Poisson process. A caller takes the next one and sleeps until its time."""

    def __init__(self, seed, rate):
        self.rng, self.rate, self.lock, self.next = np.random.default_rng(seed), rate, threading.Lock(), time.monotonic()

    def take(self):
        with self.lock:
            self.next += self.rng.exponential(1 / self.rate)
            n, deadline = int(self.rng.integers(1, 5)), int(self.rng.choice(DEADLINES_MS))
            ids = [np.where(self.rng.random(n) < 0.85, self.rng.integers(0, HOT, n), self.rng.integers(0, ROWS, n)) for _ in range(2)]
            return self.next, deadline, *ids


class Service:
    def __init__(self, folder):
        self.folder, self.spec = folder, json.loads((folder / "spec.json").read_text())
        engine, self.oracle = Engine(self.spec["library"]), Oracle(self.spec["bundle"])
        self.env = Environment(engine.lib)
        self.models = {name: Served(engine.lib, m["path"], m["options"], self.env) for name, m in self.spec["models"].items()}
        self.calls, self.control, self.stop = collections.deque(), collections.deque(), threading.Event()
        self.last_bad = dict.fromkeys(self.models, 0.0)
        self.plants, self.uncounted = set(self.spec["plants"]), 0
        self.plant_at = time.monotonic() + 2

    def caller(self, name, plan):
        model = self.models[name]
        while not self.stop.is_set():
            planned, deadline_ms, users, items = plan.take()
            if self.stop.wait(max(0.0, planned - time.monotonic())):
                return
            call = {"model": name, "planned": planned, "deadline_ms": deadline_ms, "users": users.tolist(), "items": items.tolist(),
                    "code": 0, "begin": time.monotonic()}
            try:
                call["scores"] = model.scores(users, items, time.monotonic_ns() + deadline_ms * 1_000_000)
            except EngineError as error:
                call.update(code=error.code, text=str(error))
            self.plant(call, users, items)
            call["end"] = time.monotonic()
            self.calls.append(call)
            if call["code"] or any((False, False) not in fits and (name != "default" or (False, True) not in fits)
                                   for fits in self.oracle.made_of(call["scores"], users, items)):
                self.last_bad[name] = max(self.last_bad[name], planned)

    def plant(self, call, users, items):
        """A mistake of the kind that the checker is for, once each; calls fail, and may be counted, beside one that is not counted."""
        if not self.plants or call["code"] or time.monotonic() < self.plant_at:
            return
        if call["model"] == "exact":
            for kind in ("score", "nan", "default", "late"):
                if kind in self.plants:
                    self.plants.discard(kind)
                    break
            else:
                return
            if kind == "score":
                call["scores"][0] += 1e-3
            elif kind == "nan":
                call["scores"][0] = float("nan")
            elif kind == "default":
                call["scores"][0] = float(self.oracle.scores(users[:1], items[:1], True)[0])
            else:
                time.sleep(call["deadline_ms"] / 1000 + 3)
        elif call["model"] == "default" and "uncounted" in self.plants:
            self.uncounted += 1
            if self.uncounted == 10:
                self.plants.discard("uncounted")
            call["scores"] = self.oracle.scores(users, items, True, True).tolist()

    def sleeper(self):
        while not self.stop.is_set():
            begin = time.monotonic()
            time.sleep(CONTROL_S)
            self.control.append((begin, time.monotonic() - begin - CONTROL_S))

    def put(self, name, what):
        text = self.folder / (name + ".new")
        text.write_text(json.dumps(what))
        text.rename(self.folder / name)

    def run(self):
        threads = [threading.Thread(target=self.sleeper) for _ in range(2)]
        for i, (name, m) in enumerate(self.spec["models"].items()):
            plan = Plan(self.spec["seed"] * 100 + i, m["rate"])
            threads += [threading.Thread(target=self.caller, args=(name, plan)) for _ in range(CALLERS)]
        for t in threads:
            t.start()
        with open(self.folder / "service.log", "a", buffering=1) as log:
            while not (self.folder / "stop").exists():
                for message in self.env.messages():
                    log.write(f"{time.monotonic():.3f} {message}\n")
                self.put("metrics.json", {"at": time.monotonic(), "models": {n: m.counters() for n, m in self.models.items()}})
                self.put("pace.json", {"at": time.monotonic(), "last_bad": self.last_bad, "calls": len(self.calls)})
                time.sleep(0.1)
        self.stop.set()
        for t in threads:
            t.join()
        self.put("counters.json", {n: m.counters() for n, m in self.models.items()})
        with open(self.folder / "calls.jsonl", "w") as out:
            for call in self.calls:
                out.write(json.dumps(call) + "\n")
        self.put("control.json", list(self.control))


if __name__ == "__main__":
    Service(pathlib.Path(sys.argv[1])).run()
