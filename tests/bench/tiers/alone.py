"""RocksDB alone, Redis alone, the stages of a call, and PyTorch over the bundle's own file: the figures beside the tier's."""

import json
import re
import subprocess
import tempfile

import numpy as np

from . import bundles, models, timing
from .draws import Draws


def rocksdb(a):
    """us of bare MultiGet, and of a fetch through the plugin, by keys of a call. In the page cache."""
    program = a.bench_folder / "rocksdb_bench"
    if not program.exists():
        return a.progress("no rocksdb_bench: RocksDB is left out")
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        a.progress("RocksDB alone")
        done = subprocess.run([program, f"--benchmark_out={out.name}", "--benchmark_out_format=json"], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{program}\n{done.stderr}")
        for b in json.load(out)["benchmarks"]:
            what, keys = b["name"].split("/")[1:3]
            a.tell("rocksdb", {"what": what, "keys": int(keys), "us": b["us"], "p99_us": b["p99_us"]},
                   f"RocksDB {what:6} {int(keys):5} keys  {b['us']:8.1f} us, p99 {b['p99_us']:8.1f}")
            if what == "bare":
                a.multiget_us = b["us"] / int(keys)  # the last: of the largest call
    return None


def redis(a):
    """What redis_bench says, as it says it."""
    program = a.bench_folder / "redis_bench"
    if not program.exists():
        return a.progress("no redis_bench: Redis is left out")
    a.progress("Redis alone")
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{program}\n{done.stdout}{done.stderr}")
    for line in done.stdout.splitlines():
        if re.search(r"\d keys: plugin", line):
            a.tell("redis", {"line": line.strip()}, line.strip())
    return None


def _profile(a, path, options):
    command = [a.bench_folder.parent / "dpi", "bench", path, "--device", "cpu", "--batch", str(max(a.batches)), "--profile", "--json",
               "--seconds", str(a.seconds)]
    for key, value in options.items():
        command += ["--option", f"{key}={value}"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"dpi bench {path}\n{done.stderr}")
    return json.loads(done.stdout)


def stages(a):
    """The time of each op by `dpi bench --profile`; what a tiered call takes more lies before them, in finding places."""
    shape = bundles.criteo(min(a.keys, 20_000_000), a.dim, a.dtype)
    fields = range(shape.fields)
    tiered = models.tier_options(shape, fields, models.tier_bytes(shape, fields))
    for mlp in a.mlps:
        with models.removed(a.folder / f"stages_{mlp}.h5") as path:
            bundles.write(path, shape, bundles.MLPS[mlp], a.progress)
            for name, options in (("resident", {}), ("all", tiered)):
                found = _profile(a, path, {"max_rows": max(a.batches), **options})
                a.tell("stages", {"mlp": mlp, "tiered": name, "bench": found}, f"stages, MLP {mlp}, {name}: {_short(found)}")


def _short(found):
    ops, call = found["profile"], found["profiled_call"]["us_per_call"]
    named = ", ".join(f"{op['op']} {op['us_per_call']:.0f}" for op in ops)
    return f"call {call:.0f} us = {named} + {call - sum(op['us_per_call'] for op in ops):.0f} for rows, ids and places"


def _mapped(path, shape, torch):
    """The bundle's tables where they lie in the file, as torch tensors: the page cache is their only tier."""
    import h5py
    with h5py.File(path) as f:
        places = [(f["tables"][f"t{t}"].id.get_offset(), rows) for t, rows in enumerate(shape.rows)]
    kind = {"f32": np.float32, "f16": np.float16}[shape.dtype]
    return [torch.from_numpy(np.memmap(path, kind, "c", offset, (rows, shape.dim))) for offset, rows in places]


def _torch_call(torch, shape, tables, hidden):
    layers = [(torch.from_numpy(w), torch.from_numpy(b)) for w, b in bundles.weights(shape, hidden)]
    functional = torch.nn.functional

    def call(ids, dense):
        with torch.inference_mode():
            columns = torch.from_numpy(ids)
            x = [functional.embedding(columns[:, f], tables[t]).float() for f, t in enumerate(shape.table_of)]
            x = torch.cat([*x, torch.from_numpy(dense)], 1)
            for w, b in layers[:-1]:
                x = torch.relu(functional.linear(x, w, b))
            return torch.sigmoid(functional.linear(x, *layers[-1])).numpy()
    return call


def torch_mapped(a):
    """nn.functional.embedding over the mapped file beside the resident and the tiered model, all rows in memory, one thread."""
    try:
        import torch
    except ImportError:
        return a.progress("no torch: PyTorch is left out")
    torch.set_num_threads(1)
    shape, mlp = bundles.criteo(min(a.keys, 20_000_000), a.dim, a.dtype), a.mlps[-1]
    with models.removed(a.folder / "torch.h5") as path:
        bundles.write(path, shape, bundles.MLPS[mlp], a.progress)
        fields = range(shape.fields)
        options = models.tier_options(shape, fields, models.tier_bytes(shape, fields))
        with models.load(path, max(a.batches)) as resident, models.load(path, max(a.batches), **options) as tiered:
            peer = _torch_call(torch, shape, _mapped(path, shape, torch), bundles.MLPS[mlp])
            calls = {"resident": models.caller(resident, max(a.batches)), "tiered": models.caller(tiered, max(a.batches)), "torch": peer}
            draws = Draws(shape.field_rows, True, bundles.DENSE)
            for rows in a.batches:
                batches = [draws.next(rows) for _ in range(max(4, 16384 // rows))]
                np.testing.assert_allclose(peer(*batches[0]), resident.predict(*batches[0]), rtol=0, atol=1e-5)
                times = {n: t.summary()["cpu_p50_us"] for n, t in timing.in_turns(calls, batches, a.seconds).items()}
                a.tell("torch", {"mlp": mlp, "batch": rows, "us": times}, f"torch {torch.__version__}, MLP {mlp} batch {rows:5}  " +
                       "  ".join(f"{n} {us:.0f} us" for n, us in times.items()))
    return None
