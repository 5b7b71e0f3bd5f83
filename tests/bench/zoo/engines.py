"""The engines: each makes its calls for sets of rows, `call(i)` scoring set i modulo their number and returning [rows] or [rows, heads]."""

import copy

import numpy as np
import torch

from inputs import flat, tensors


def float64(model, arrays):
    """PyTorch's scores in float64."""
    double = copy.deepcopy(model).double()
    batch = {key: t.double() if t.is_floating_point() else t for key, t in tensors(arrays).items()}
    with torch.inference_mode():
        return double(batch).numpy()


class Torch:
    """Eagerly, as its users run it."""

    def __init__(self, model):
        self.model = model

    def calls(self, sets):
        given = [tensors(rows) for rows in sets]

        def call(i):
            with torch.inference_mode():
                return self.model(given[i % len(given)]).numpy()
        return call


class Step(torch.nn.Module):
    """The model over positional inputs; recurrent layers step by step, since neither a script nor a graph holds packed sequences."""

    def __init__(self, model, names):
        super().__init__()
        self.model, self.names = copy.copy(model), names
        if hasattr(model, "packed"):
            self.model.packed = False

    def forward(self, *given):
        return self.model(dict(zip(self.names, given)))


def _example(name):
    from inputs import rows
    return tensors(rows(name, 3, np.random.default_rng(2), "uniform"))


class Script:
    """TorchScript, traced and frozen."""

    def __init__(self, model, name):
        example = _example(name)
        self.names = list(example)
        with torch.no_grad():
            traced = torch.jit.trace(Step(model, self.names).eval(), tuple(example.values()), check_trace=False)
            self.run = torch.jit.freeze(traced.eval())

    def calls(self, sets):
        given = [tuple(tensors(rows)[key] for key in self.names) for rows in sets]

        def call(i):
            with torch.inference_mode():
                return self.run(*given[i % len(given)]).numpy()
        return call


class Onnx:
    """ONNX Runtime's CPU provider, all of its optimisations, one thread."""

    @staticmethod
    def usable():
        """Its version, or an empty text."""
        try:
            import onnxruntime
            return onnxruntime.__version__
        except ImportError:
            return ""

    def __init__(self, model, name, folder):
        import onnxruntime

        example, path = _example(name), str(folder / f"{name}.onnx")
        self.names = list(example)
        with torch.no_grad():
            torch.onnx.export(Step(model, self.names).eval(), tuple(example.values()), path, input_names=self.names, output_names=["scores"],
                              dynamic_axes={key: {0: "rows"} for key in [*self.names, "scores"]}, dynamo=False)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def calls(self, sets):
        return lambda i: self.session.run(None, {key: sets[i % len(sets)][key] for key in self.names})[0]


class Dpi:
    """dpi.Model of a bundle."""

    def __init__(self, path, max_rows, options):
        import dpi

        self.name = path.stem
        self.model = dpi.Model(path, device="cpu", max_contexts=1, max_rows=max(max_rows, 64), options=options)

    def calls(self, sets):
        given = [flat(self.name, rows) for rows in sets]

        def call(i):
            ids, dense, offsets = given[i % len(given)]
            scores = self.model.predict(ids, dense, offsets=offsets)
            return scores[:, 0] if scores.shape[1] == 1 else scores
        return call
