"""Imports the models of keras_models.py and compares them with Keras's own scores, in the executor and in the engine; then runs random
graphs. Closes with "N passed, N failed". Called by keras_onnx.sh with Debian's Python.

  python3 keras_onnx.py FOLDER PROGRAM_DPI FIRST_SEED GRAPHS
"""

import pathlib
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "weights" / "python"), str(ROOT / "weights" / "python" / "tests")]

import test_onnx_fuzz  # noqa: E402
from dpi_export import Bundle, Executor, Rows, from_onnx  # noqa: E402


def keras_model(path, program):
    """The largest difference from Keras's own float32 scores; the engine's word."""
    with np.load(path.with_suffix(".npz")) as held:
        rows = {name: held[name] for name in held.files if name != "scores"}
        want = held["scores"].astype(np.float64)[:, 0]
    bundle_path = path.with_suffix(".h5")
    from_onnx(path, bundle_path, rows=rows)
    columns = {name: a if name == "amount" else a[:, 0].tolist() if a.shape[1] == 1 else [[i for i in bag if i] for bag in a.tolist()]
               for name, a in rows.items()}
    with Bundle(bundle_path) as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, {f["name"]: columns[f["name"]] for f in bundle.features}))["value"]["ctr"]
    for device in ("ref", "cpu"):
        subprocess.run([program, "verify", bundle_path, "--device", device], check=True, capture_output=True)
    assert np.isfinite(got).all() and got.shape == want.shape
    return np.abs(got - want).max()


def main(folder, program, first, count):
    """Runs everything."""
    passed = failed = refused = 0
    for path in sorted(folder.glob("*.onnx")):
        try:
            error = keras_model(path, program)
        except Exception as e:  # noqa: BLE001  (whatever it is, the others are run too)
            error = f"{type(e).__name__}: {e}"
        good = isinstance(error, float) and error <= 2e-6
        passed, failed = passed + good, failed + (not good)
        print(f"{'ok  ' if good else 'FAIL'} {path.stem}: {error if isinstance(error, str) else f'{error:.2g}'}")
    for seed in range(first, first + count):
        opset = test_onnx_fuzz.OPSETS[seed % len(test_onnx_fuzz.OPSETS)]
        try:
            error = test_onnx_fuzz.error_of(seed, opset)
        except Exception as e:  # noqa: BLE001
            error, problem = 1.0, f"{type(e).__name__}: {e}"
        else:
            problem, refused = error, refused + (error is None)
        good = error is None or error <= 1e-4
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAIL random graph {seed}, opset {opset}: {problem}")
    print(f"{count} random graphs, {refused} of them refused")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
