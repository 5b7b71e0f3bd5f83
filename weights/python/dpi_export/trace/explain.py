"""What each layer of a model became: primitives, floating-point operations per row, and the engine's fused ops."""

import json
import math
import pathlib
import subprocess
import tempfile
from collections import Counter

from .build import clean
from .normalise import reachable


class Explanation:
    """`layers`: [{"layer", "class", "primitives": {kind: count}, "flops", "ops": {kind: count}}] in the model's order, "ops" of the engine's plan
    where it was asked for one; `flops`: their sum. str() is a table."""

    def __init__(self, model, layers):
        self.model, self.layers, self.flops = model, layers, sum(row["flops"] for row in layers)

    def __str__(self):
        lines = [f"{self.model}: {sum(sum(row['primitives'].values()) for row in self.layers)} primitives, {self.flops:,} floating-point "
                 "operations per row"]
        width = max([len(row["layer"]) for row in self.layers] + [5])
        for row in self.layers:
            made = ", ".join(f"{n} {kind}" for kind, n in sorted(row["primitives"].items())) or "nothing"
            made += "".join(f"{', ' if i else ' -> '}{n} {kind}" for i, (kind, n) in enumerate(sorted(row.get("ops", {}).items())))
            lines.append(f"  {row['layer']:<{width}}  {row['class']:<20} {row['flops']:>12,}  {made}")
        return "\n".join(lines)


def planned(builder, program):
    """{layer: Counter of the ops in the plan of the program dpi} of an import's bundle."""
    ops = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "explained.h5"
        builder.write(path)
        done = subprocess.run([str(program), "plan", str(path), "--device", "cpu", "--json"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"explain: {program} plan: {done.stderr.strip() or done.returncode}")
    for op in json.loads(done.stdout)["ops"]:
        ops.setdefault(op["module"], Counter())[op["kind"]] += 1
    return ops


def explanation(model, heads, plan=None):
    """The Explanation of a traced model's heads. A layer without an op of its own is there with none: its layers did it all, or it does
    nothing in evaluation mode, or no score depends on it. A fused op stands with the layer that names it, often the last of those that it
    took over; one over several layers, as the lookup of all tables, with the inputs."""
    made, flops = {}, Counter()
    for op in reachable([op for head in heads for op in (head.value, head.logit) if op is not None]):
        kind = op.kind if op.kind not in ("Unary", "Binary", "Reduce", "View") else f"{op.kind} {op.attrs['kind']}"
        made.setdefault(op.module, Counter())[kind] += 1
        flops[op.module] += cost(op)
    layers, plan = [], None if plan is None else dict(plan)
    for path, module in model.named_modules():
        label = (path or type(model).__name__).replace(".", "/")
        layers.append({"layer": path or "(model)", "class": getattr(module, "kind", type(module).__name__), "primitives": dict(made.pop(label, {})),
                       "flops": flops.pop(label, 0), **({} if plan is None else {"ops": dict(plan.pop(clean(label), {}))})})
    rest = sum(made.values(), Counter())
    if rest or plan:
        layers.append({"layer": "(inputs)", "class": "", "primitives": dict(rest), "flops": sum(flops.values()),
                       **({} if plan is None else {"ops": dict(sum(plan.values(), Counter()))})})
    return Explanation(type(model).__name__, layers)


def cost(op):
    """Floating-point operations of one op for one row: a product and its addition are two, everything else is one for each entry."""
    size = math.prod(op.shape) if op.shape is not None else 0
    if op.kind in ("Input", "Const", "View", "Concat"):
        return 0
    if op.kind == "Linear":
        return size * (2 * op.params["weight"].shape[-1] + ("bias" in op.params))
    if op.kind == "MatMul":
        a = op.ins[0].shape
        return 2 * size * (a[-2] if op.attrs.get("trans_a") else a[-1])
    if op.kind in ("Reduce", "Mask"):
        return math.prod(op.ins[0].shape) if op.ins[0].shape is not None else 0
    if op.kind == "Softmax":
        return 4 * size  # largest, exp, sum, quotient
    if op.kind == "LayerNorm":
        return 8 * size  # mean, distance, square, sum, root, quotient, gamma, beta
    if op.kind == "Embed":
        return 0  # pooling adds as many rows as the bag holds, which the model does not say
    return size
