"""LR, FM, Wide&Deep, DeepFM, DCN and DCNv2 of both libraries, imported by hand and by tracing: the engine's plans are the same but for the
names of layers, and its scores on the CPU are the same bits.

`run_all(engine)` yields (name, problem). The program dpi, which prints plans, is DPI_PROGRAM, or lies in bin/ beside the library's lib/.
"""

import os
import re
import subprocess
import tempfile
from pathlib import Path

import cases
import numpy as np
import torch
import traced
from dpi_export.importers.deepctr_torch import DeepctrImport
from dpi_export.importers.fuxictr import FuxiImport
from dpi_export.importers.run import to_rows
from dpi_export.importers.traced_libraries import DeepctrTrace, FuxiTrace

#: Cases whose traced ops are others than the hand-written ones (traced.LEFT says why).
LEFT = (*traced.LEFT,)
#: Cases whose plans differ, and why; their scores are held to 1e-6.
OTHER = {"FM, padding row in use": "the sum of a masked mean is a pooled lookup by tracing",
         "WideDeep, padding row in use": "as FM, padding row in use",
         "DeepFM, dim 1": "the pairs of fields of one number are no Fm op by tracing",
         "WideDeep, dim 1": "tables of one number are numbered in the order of use",
         "WideDeep, hidden ()": "the two linear parts are added in the model's order",
         "WideDeep, bn_only_once, no hidden": "as hidden ()",
         "gated encoders": "the two halves of a CELU stand in the model's order"}
_ROWS = (33, 4)


def program(library):
    """The program dpi."""
    return os.environ.get("DPI_PROGRAM") or str(Path(library).resolve().parent.parent / "bin" / "dpi")


def plan(dpi, path):
    """The plan's text without the names of layers, tables and values, and with its blocks of memory counted as they come; the names of
    features stay."""
    done = subprocess.run([dpi, "plan", str(path), "--device", "cpu"], capture_output=True, text=True, check=True)
    text = re.sub(r"(bags |in )?'[^']*'", lambda m: m.group(0) if m.group(1) else "''", done.stdout)
    blocks = {}
    return re.sub(r"#\d+", lambda m: f"#{blocks.setdefault(m.group(0), len(blocks))}", text)


def scored(engine, path, given):
    """Values and logits of several batches on the CPU."""
    with engine.load(path, device="cpu") as model:
        return [model.predict(rows, n) for rows, n in given]


def _compared(engine, dpi, make, name, folder, spoil=None):
    kind, model, fmap, _ = make(sum(map(ord, name)) % 9973)
    pair = {"fuxictr": (FuxiImport, FuxiTrace), "deepctr_torch": (DeepctrImport, DeepctrTrace)}[kind]
    texts, scores, rows = [], [], None
    for at, importer in enumerate(pair):
        if spoil is not None and at:
            spoil(model)
        imported = importer(model, fmap)
        imported.build()
        path = Path(folder) / f"{at}.h5"
        imported.b.write(path)
        rows = rows or [imported.random_rows(np.random.default_rng(5 + n), n) for n in _ROWS]
        given = [(to_rows(imported, some), n) for some, n in zip(rows, _ROWS)]
        texts.append(plan(dpi, path))
        scores.append(scored(engine, path, given))
    pairs = [pair for both in zip(*scores) for pair in zip(*both)]
    if any(text in name for text in OTHER):
        if texts[0] == texts[1]:
            return "the plans are the same now: take it off OTHER"
        return "" if all(np.allclose(a, b, rtol=1e-6, atol=1e-6) for a, b in pairs) else "scores differ"
    if texts[0] != texts[1]:
        a, b = (text.splitlines() for text in texts)
        line = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        return f"plans differ in line {line + 1}: by hand {a[line:line + 1]}, traced {b[line:line + 1]}"
    return "" if all(a.tobytes() == b.tobytes() for a, b in pairs) else "scores differ in bits"


def compared():
    """The cases, name -> factory: those whose ops are the same."""
    every = {**cases.fuxictr_cases(), **cases.deepctr_cases()}
    return {name: make for name, make in every.items() if not any(text in name for text in (*traced.SKIPPED, *LEFT))}


def run_all(engine):
    """(name, problem) of every case, and of two planted faults."""
    if engine is None:
        return
    dpi = program(engine.lib._name)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in compared().items():
            label = f"{name}, another plan" if any(text in name for text in OTHER) else name
            yield label, traced._guarded(_compared, engine, dpi, make, name, folder)
        name = "FuxiCTR DeepFM, hidden (16, 8)"
        make = cases.fuxictr_cases()[name]
        for fault, spoil in (("a weight that differs in its last bit", _last_bit), ("a layer more", _layer)):
            yield f"a planted fault: {fault}", "" if _compared(engine, dpi, make, name, folder, spoil) else "was not seen"


def _last_bit(model):
    weight = model.mlp.mlp[0].weight
    with torch.no_grad():
        weight.view(-1)[:] = torch.from_numpy(np.nextafter(weight.detach().numpy().reshape(-1), np.float32(9)))


def _layer(model):
    model.mlp.mlp[-1] = torch.nn.Sequential(model.mlp.mlp[-1], torch.nn.Linear(1, 1))
