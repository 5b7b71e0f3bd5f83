"""The model as a bundle of primitives, which the engine has to fold and fuse by itself."""

import dpi_export
import numpy as np
import shapes


def export(model, shape, weights, path):
    b = dpi_export.Builder(f"{shape}_{model}")
    bounds = np.append(weights["offsets"], len(weights["table"]))
    spans = list(zip(bounds[:-1], bounds[1:]))
    inputs = [b.input(b.categorical(f"c{f}", int(end - start))) for f, (start, end) in enumerate(spans)]
    x0 = b.concat([b.embed(x, b.table(f"c{f}", weights["table"][s:e])) for f, (x, (s, e)) in enumerate(zip(inputs, spans))], name="x0")
    hidden, crosses = shapes.layers(model, weights)
    h = x = x0
    for i in range(hidden):
        h = b.relu(b.linear(h, weights[f"w{i}"].T.copy(), weights[f"b{i}"], name=f"mlp/{i}", module="mlp"), module="mlp")
    for i in range(crosses):
        w, bias = weights[f"cross_w{i}"].T.copy(), weights[f"cross_b{i}"]
        if model == "dcn":
            x = b.add(b.add(b.mul(x0, b.linear(x, w)), b.const(bias)), x, module=f"cross/{i}")
        else:
            x = b.add(b.mul(x0, b.linear(x, w, bias)), x, module=f"cross/{i}")
    logit = b.linear(b.concat([x, h]) if crosses else h, weights["out_w"].T.copy(), weights["out_b"], name="out")
    if "linear" in weights:
        wide = [b.embed(x, b.table(f"c{f}.w", weights["linear"][s:e, None])) for f, (x, (s, e)) in enumerate(zip(inputs, spans))]
        logit = b.add(logit, b.reduce("sum", b.concat(wide), keepdim=True), name="wide")
    if model == "deepfm":
        total = b.reduce("sum", b.reshape(x0, [len(inputs), shapes.DIM]), axis=0)
        fm = b.sub(b.reduce("sumsq", total, keepdim=True), b.reduce("sumsq", x0, keepdim=True))
        logit = b.add(logit, b.unary("affine", fm, a=0.5, b=0.0), name="with_fm")
    b.head("ctr", b.sigmoid(logit), logit=logit)
    b.write(str(path), check=False)
