"""Holds the oracle of the random ONNX graphs (weights/python/tests/onnx_numpy.py) to ONNX Runtime. Runs in the environment that
keras_onnx.sh makes; needs no torch.

  python onnx_oracle.py FIRST_SEED GRAPHS
"""

import pathlib
import sys

import numpy as np
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "weights" / "python" / "tests"))

import onnx_numpy  # noqa: E402
import onnx_random  # noqa: E402

OPSETS = (11, 12, 13, 14, 16, 17, 18, 21)


def difference(seed, opset):
    """The largest difference of float32 from float64, relative to max(1, |score|)."""
    model, _ = onnx_random.make(seed, opset)
    rows = onnx_random.sample(np.random.default_rng(seed), 7)
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    got = session.run(None, {i.name: rows[i.name] for i in session.get_inputs()})[0]
    (want,) = onnx_numpy.run(model, rows).values()
    return (np.abs(got - want) / np.maximum(1, np.abs(want))).max()


def main(first, count):
    """Runs all; the exit status is 1 where one differs."""
    bad = 0
    for seed in range(first, first + count):
        worst = difference(seed, OPSETS[seed % len(OPSETS)])
        if not worst <= 2e-3:
            bad += 1
            print(f"FAIL graph {seed}: the oracle is off by {worst}")
    print(f"oracle and ONNX Runtime {onnxruntime.__version__}: {count} graphs, {bad} differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
