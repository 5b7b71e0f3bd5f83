"""PyTorch in its forms: eager, eager with oneDNN's packed layers, a frozen script, and FBGEMM's lookup before oneDNN's layers."""

import numpy as np
import shapes
import torch
from torch.nn import functional


class Ctr(torch.nn.Module):
    """ids int64 [rows, fields] -> scores [rows]. One merged table; a subclass may change `embed` and `layer`."""

    def __init__(self, model, weights):
        super().__init__()
        self.kind, self.fields = model, len(weights["offsets"])
        self.hidden, self.crosses = shapes.layers(model, weights)
        for name, array in weights.items():
            array = array.T.copy() if array.ndim == 2 and name != "table" else array
            self.register_buffer(name, torch.from_numpy(array[:, None].copy() if name == "linear" else array))

    def embed(self, ids, rows):
        return functional.embedding(rows, self.table).flatten(1)

    def layer(self, x, weight, bias, relu):
        y = functional.linear(x, getattr(self, weight), None if bias is None else getattr(self, bias))
        return torch.relu(y) if relu else y

    def forward(self, ids):
        rows = ids + self.offsets
        x0 = self.embed(ids, rows)
        h = x = x0
        for i in range(self.hidden):
            h = self.layer(h, f"w{i}", f"b{i}", True)
        for i in range(self.crosses):
            if self.kind == "dcn":
                x = torch.addcmul(x + getattr(self, f"cross_b{i}"), x0, self.layer(x, f"cross_w{i}", None, False))
            else:
                x = torch.addcmul(x, x0, self.layer(x, f"cross_w{i}", f"cross_b{i}", False))
        logit = functional.linear(torch.cat([x, h], dim=1) if self.crosses else h, self.out_w, self.out_b)
        if self.kind in ("widedeep", "deepfm"):
            logit = logit + functional.embedding(rows, self.linear).sum(dim=1)
        if self.kind == "deepfm":
            e = x0.view(-1, self.fields, shapes.DIM)
            logit = logit + 0.5 * (e.sum(dim=1) ** 2 - (e ** 2).sum(dim=1)).sum(dim=1, keepdim=True)
        return torch.sigmoid(logit).flatten()


class Packed(Ctr):
    """Layers by oneDNN with weights packed beforehand and relu fused, as torch.compile's freezing makes them."""

    def __init__(self, model, weights, rows):
        super().__init__(model, weights)
        names = [f"w{i}" for i in range(self.hidden)] + [f"cross_w{i}" for i in range(self.crosses) if model == "dcnv2"]
        self.packed = {name: torch.ops.mkldnn._reorder_linear_weight(getattr(self, name), rows) for name in names}

    def layer(self, x, weight, bias, relu):
        if weight not in self.packed:
            return super().layer(x, weight, bias, relu)
        return torch.ops.mkldnn._linear_pointwise(x, self.packed[weight], getattr(self, bias), "relu" if relu else "none", [], "")


class Fbgemm(Packed):
    """The lookup of all fields by FBGEMM's table-batched kernel for inference."""

    def __init__(self, model, weights, rows):
        super().__init__(model, weights, rows)
        import torch.fx  # noqa: F401  (fbgemm_gpu forgets to import it)
        from fbgemm_gpu.split_embedding_configs import SparseType
        from fbgemm_gpu.split_table_batched_embeddings_ops_common import EmbeddingLocation, PoolingMode
        from fbgemm_gpu.split_table_batched_embeddings_ops_inference import IntNBitTableBatchedEmbeddingBagsCodegen

        bounds = np.append(weights["offsets"], len(weights["table"]))
        specs = [(f"t{f}", int(bounds[f + 1] - bounds[f]), shapes.DIM, SparseType.FP32, EmbeddingLocation.HOST) for f in range(self.fields)]
        self.lookup = IntNBitTableBatchedEmbeddingBagsCodegen(specs, output_dtype=SparseType.FP32, device="cpu", pooling_mode=PoolingMode.SUM)
        self.lookup.initialize_weights()
        for f, (rows_of_field, _) in enumerate(self.lookup.split_embedding_weights()):
            rows_of_field.copy_(self.table[bounds[f]:bounds[f + 1]].contiguous().view(torch.uint8))
        self.bags = {}

    def embed(self, ids, rows):
        n = ids.shape[0]
        if n not in self.bags:
            self.bags[n] = torch.arange(n * self.fields + 1, dtype=torch.int32)
        return self.lookup(ids.t().to(torch.int32).contiguous().view(-1), self.bags[n])


class Engine:
    def __init__(self, form, model, weights, threads, batch):
        torch.set_num_threads(threads)
        made = {"torch": Ctr, "onednn": Packed, "fbgemm": Fbgemm, "script": Ctr}[form]
        self.run = (made(model, weights) if made is Ctr else made(model, weights, batch)).eval()
        if form == "script":
            with torch.inference_mode():
                traced = torch.jit.trace(self.run, torch.zeros(3, self.run.fields, dtype=torch.int64))
                self.run = torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval()))

    def calls(self, sets):
        tensors = [torch.from_numpy(s) for s in sets]

        def call(i):
            with torch.inference_mode():
                return self.run(tensors[i % len(tensors)]).numpy()
        return call
