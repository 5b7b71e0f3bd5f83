"""Layers of torch.nn as ops, against torch itself in float64."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
prune = pytest.importorskip("torch.nn.utils.prune")

from dpi_export import Builder, Executor, Rows, UnsupportedModelError  # noqa: E402
from dpi_export.importers.common import ImportContext  # noqa: E402
from dpi_export.importers.torch_modules import sequential  # noqa: E402


def run(module, x):
    """(our output, torch's) for rows x [B, n], summed over the outputs with growing weights."""
    b = Builder("m")
    b.dense("x", x.shape[1])
    model = nn.ModuleDict({"net": module}).eval()
    ctx = ImportContext(model, b)
    ctx.take(model)
    out = sequential(ctx, module, b.input("x"), "mlp")
    ctx.check_leftovers()
    weight = np.arange(1, b.shape(out)[-1] + 1, dtype=np.float32)[None]
    b.head("h", b.linear(out, weight), activation="identity")
    with torch.no_grad():
        want = (module.double()(torch.from_numpy(x).double()) * torch.from_numpy(weight)).sum(dim=1).numpy()
    module.float()
    return Executor(b).run(Rows(dense=x))["value"]["h"], want, b


def rows(n=17, width=6, seed=0):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32) * 3


ACTIVATIONS = [nn.ReLU(), nn.ReLU6(), nn.Hardtanh(-0.5, 2), nn.Sigmoid(), nn.Tanh(), nn.LeakyReLU(0.3), nn.ELU(0.7), nn.SELU(),
               nn.SiLU(), nn.GELU(), nn.GELU(approximate="tanh"), nn.Softmax(dim=-1), nn.Softmax(dim=1), nn.PReLU(),
               nn.PReLU(6), nn.Softplus(), nn.Mish(), nn.LogSigmoid(), nn.Identity(), nn.Dropout(0.9)]


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activation(activation):
    got, want, _ = run(nn.Sequential(activation), rows())
    assert np.abs(got - want).max() <= 1e-7 * max(1, np.abs(want).max())


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_uses_running_statistics(affine):
    bn = nn.BatchNorm1d(6, eps=1e-3, affine=affine)
    with torch.no_grad():
        bn.running_mean.normal_()
        bn.running_var.uniform_(0.1, 3)
        if affine:
            bn.weight.normal_()
            bn.bias.normal_()
    got, want, b = run(nn.Sequential(bn), rows())
    assert np.abs(got - want).max() <= 1e-5
    assert [op["attrs"]["kind"] for op in b.ops if op["op"] == "Unary"] == ["affine"]


def test_layers_are_labelled_by_block():
    net = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Dropout(0.1), nn.Linear(5, 4, bias=False), nn.LayerNorm(4),
                        nn.Sequential(nn.Tanh(), nn.Linear(4, 3)))
    net.eval()
    got, want, b = run(net, rows())
    assert np.abs(got - want).max() <= 1e-5
    labels = [op.get("module") for op in b.ops if op["op"] in ("Linear", "LayerNorm")][:4]
    assert labels[:3] == ["mlp/0", "mlp/1", "mlp/1"]


def test_one_layer_used_twice():
    act = nn.PReLU(6)
    got, want, _ = run(nn.Sequential(act, nn.Linear(6, 6), act), rows())
    assert np.abs(got - want).max() <= 1e-5


def _no_statistics():
    return nn.BatchNorm1d(6, track_running_stats=False)


class Custom(nn.ReLU):
    def forward(self, x):
        return super().forward(x) + 1


REFUSED = [(nn.Hardshrink(), "Hardshrink"), (nn.Softmax(dim=0), "rows of the batch"), (nn.Softplus(beta=2), "beta=2"), (Custom(), "Custom"),
           (nn.BatchNorm1d(5), "5 channels"), (_no_statistics(), "running statistics"), (nn.LayerNorm(3), "normalises"),
           (nn.GroupNorm(2, 6), "GroupNorm"), (nn.PReLU(4), "4 slopes"), (nn.Linear(6, 6).double(), "float64"),
           (nn.Threshold(1, 2), "Threshold")]


@pytest.mark.parametrize("layer, text", REFUSED, ids=[t for _, t in REFUSED])
def test_refused_by_name(layer, text):
    with pytest.raises(UnsupportedModelError, match=text) as e:
        run(nn.Sequential(layer), rows())
    assert "net.0" in str(e.value)


def test_half_weights_are_widened():
    net = nn.Sequential(nn.Linear(6, 4)).half()
    got, want, _ = run(net, rows())
    assert np.abs(got - want).max() <= 1e-12 * max(1, np.abs(want).max())


def test_shared_tables_are_stored_once():
    b = Builder("m")
    first, twin, other = nn.Embedding(5, 3), nn.Embedding(5, 3), nn.Embedding(5, 3)
    twin.weight = first.weight
    ctx = ImportContext(nn.ModuleList([first, twin, other]), b)
    assert [ctx.table(m, f"t{i}") for i, m in enumerate((first, twin, other))] == ["t0", "t0", "t2"]
    assert [t["name"] for t in b.tables] == ["t0", "t2"]


def _parametrised():
    class Doubled(nn.Module):
        def forward(self, weight):
            return 2 * weight
    return nn.utils.parametrize.register_parametrization(nn.Linear(6, 6), "weight", Doubled())


def _pruned_twice(layer):
    return prune.random_unstructured(prune.ln_structured(layer, "weight", 0.5, 2, 0), "weight", 0.2)


#: layer, what the refusal says of it, the call that it names
REPARAMETRISED = [
    (lambda: nn.utils.weight_norm(nn.Linear(6, 6)), "'weight' is under weight_norm", nn.utils.remove_weight_norm, ()),
    (lambda: nn.utils.weight_norm(nn.Linear(6, 6), "bias", None), "'bias' is under weight_norm",
     nn.utils.remove_weight_norm, ("bias",)),
    (lambda: nn.utils.spectral_norm(nn.Linear(6, 6)), "'weight' is under spectral_norm", nn.utils.remove_spectral_norm, ()),
    (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)), "'weight' is parametrised by SpectralNorm",
     nn.utils.parametrize.remove_parametrizations, ("weight",)),
    (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)), "'weight' is parametrised by Orthogonal",
     nn.utils.parametrize.remove_parametrizations, ("weight",)),
    (_parametrised, "'weight' is parametrised by Doubled", nn.utils.parametrize.remove_parametrizations, ("weight",)),
    (lambda: prune.l1_unstructured(nn.Linear(6, 6), "weight", 0.4), r"'weight' is pruned \(L1Unstructured\)", prune.remove, ("weight",)),
    (lambda: prune.random_unstructured(nn.Linear(6, 6), "bias", 2), r"'bias' is pruned \(RandomUnstructured\)", prune.remove, ("bias",)),
    (lambda: _pruned_twice(nn.Linear(6, 6)), r"'weight' is pruned \(LnStructured, RandomUnstructured\)", prune.remove, ("weight",)),
    (lambda: prune.l1_unstructured(nn.BatchNorm1d(6), "weight", 0.4), "BatchNorm1d.*'weight' is pruned", prune.remove, ("weight",)),
]


@pytest.mark.parametrize("make, text, undo, arguments", REPARAMETRISED, ids=[t for _, t, _, _ in REPARAMETRISED])
def test_reparametrised_weights_are_named_and_can_be_undone(make, text, undo, arguments):
    torch.manual_seed(4)
    layer = make().eval()
    with pytest.raises(UnsupportedModelError, match=text) as e:
        run(nn.Sequential(nn.ReLU(), layer), rows())
    assert f"layer 'net.1' ({type(layer).__name__})" in str(e.value)
    assert f"{undo.__name__}(layer, '{arguments[0] if arguments else 'weight'}')" in str(e.value)
    with torch.no_grad():
        before = layer(torch.ones(2, 6))
        undo(layer, *arguments)
        assert torch.allclose(layer(torch.ones(2, 6)), before, atol=1e-6)
    got, want, _ = run(nn.Sequential(nn.ReLU(), layer), rows())
    assert np.abs(got - want).max() <= 1e-5


def test_a_hook_of_ones_own_is_still_called_a_hook():
    layer = nn.Linear(6, 6)
    layer.register_forward_pre_hook(lambda m, i: None)
    with pytest.raises(UnsupportedModelError, match="forward pre hooks"):
        run(nn.Sequential(layer), rows())
