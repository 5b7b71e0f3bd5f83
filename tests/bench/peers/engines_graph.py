"""ONNX Runtime and OpenVINO, from one ONNX graph made by PyTorch's exporter; buffers bound beforehand where the library allows it."""

import pathlib
import warnings

import numpy as np
import torch
from engines_torch import Ctr


def graph(model, weights, folder):
    path = str(pathlib.Path(folder) / "model.onnx")
    fields = len(weights["offsets"])
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(Ctr(model, weights).eval(), torch.zeros(3, fields, dtype=torch.int64), path, input_names=["ids"],
                          output_names=["scores"], dynamic_axes={"ids": {0: "rows"}, "scores": {0: "rows"}}, dynamo=False)
    return path


class Onnx:
    def __init__(self, model, weights, threads, folder):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        self.run = onnxruntime.InferenceSession(graph(model, weights, folder), options, providers=["CPUExecutionProvider"])

    def calls(self, sets):
        import onnxruntime

        bound, outs = [], []
        for ids in sets:
            out, binding = np.empty(len(ids), dtype=np.float32), self.run.io_binding()
            binding.bind_ortvalue_input("ids", onnxruntime.OrtValue.ortvalue_from_numpy(ids))
            binding.bind_output("scores", "cpu", 0, np.float32, out.shape, out.ctypes.data)
            bound.append(binding)
            outs.append(out)

        def call(i):
            self.run.run_with_iobinding(bound[i % len(bound)])
            return outs[i % len(outs)]
        return call


class OpenVino:
    """precision f32 or bf16 (its default where the processor has it)."""

    def __init__(self, model, weights, threads, precision, batch, folder):
        import openvino

        core = openvino.Core()
        read = core.read_model(graph(model, weights, folder))
        read.reshape([batch, len(weights["offsets"])])  # a fixed shape is its faster form
        self.compiled = core.compile_model(read, "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                                                         "INFERENCE_PRECISION_HINT": precision})

    def calls(self, sets):
        import openvino

        request = self.compiled.create_infer_request()
        given = [openvino.Tensor(ids, shared_memory=True) for ids in sets]

        def call(i):
            request.set_input_tensor(given[i % len(given)])
            request.infer()
            return request.get_output_tensor().data
        return call
