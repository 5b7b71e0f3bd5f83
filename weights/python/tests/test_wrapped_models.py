"""Models as training holds them: compiled, wrapped for several devices, with a loss beside the score, checks in forward, dataclasses, nested
inputs, and layers whose file is no module of Python."""

import collections
import contextlib
import dataclasses

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import Bundle, UnsupportedModelError, explain, from_torch  # noqa: E402

nn = torch.nn
EXAMPLE = {"item": torch.tensor([3, 7, 0, 8]), "price": torch.tensor([0.5, -1.0, 2.0, 0.0])}
FEATURES = {"item": {"vocab_size": 9}, "price": {}}


class Net(nn.Module):
    """One id, one number; `ends` makes an output of the score."""

    def __init__(self, ends=None, checks=None):
        super().__init__()
        torch.manual_seed(1)
        self.table, self.head, self.ends, self.checks = nn.Embedding(9, 3), nn.Linear(4, 1), ends, checks

    def forward(self, item, price):
        y = torch.sigmoid(self.head(torch.cat([self.table(item), price.view(-1, 1)], dim=1))).squeeze(-1)
        if self.checks is not None:
            self.checks(self, item, price, y)
        return y if self.ends is None else self.ends(y)


def exported(path, model, example=None, **keywords):
    """The names and golden scores of the bundle of a model."""
    from_torch(model, path, example=example or EXAMPLE, features=FEATURES, **keywords)
    with Bundle(path) as bundle:
        return [h["name"] for h in bundle.heads], bundle.golden["value"]


@pytest.fixture(scope="module")
def want():
    with torch.no_grad():
        return Net()(**EXAMPLE).numpy()


def compiled_layer():
    model = Net()
    model.head = torch.compile(model.head)
    return model


def compiled_in_place():
    model = Net()
    model.compile()
    return model


def compiled_function():
    double = torch.compile(lambda y: y * 2)
    return Net(ends=lambda y: double(y) / 2)


WRAPPED = {"DataParallel": lambda: nn.DataParallel(Net()), "twice": lambda: nn.DataParallel(nn.DataParallel(Net()))}
if hasattr(torch, "compile") and hasattr(torch.compiler, "set_stance"):
    WRAPPED.update({"compile": lambda: torch.compile(Net()), "compile of DataParallel": lambda: torch.compile(nn.DataParallel(Net())),
                    "a layer": compiled_layer, "in place": compiled_in_place, "a function": compiled_function})


@pytest.mark.parametrize("name", WRAPPED)
def test_wrappers_are_taken_off(name, want, tmp_path):
    model = WRAPPED[name]()
    names, value = exported(tmp_path / "m.h5", model)
    assert names == ["ctr"] and np.abs(value[:, 0] - want).max() <= 1e-6
    from_torch(Net(), tmp_path / "plain.h5", example=EXAMPLE, features=FEATURES, name="net")
    if name in ("DataParallel", "twice", "compile"):
        from_torch(model, tmp_path / "m.h5", example=EXAMPLE, features=FEATURES, name="net")
        assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "plain.h5").read_bytes()
    assert "Net" in str(explain(model, example=EXAMPLE, features=FEATURES))


@dataclasses.dataclass
class Output:
    """What a model of today gives."""

    prob: torch.Tensor
    loss: torch.Tensor = None
    hidden: object = None


Pair = collections.namedtuple("Pair", "loss prob")
OUTPUTS = {
    "a dataclass": (lambda y: Output(y), None, ["prob"]), "a dataclass with a loss": (lambda y: Output(y, y.mean()), ["prob"], ["prob"]),
    "a dict with a loss": (lambda y: {"loss": (y ** 2).mean(), "prob": y}, ["prob"], ["prob"]),
    "a tuple with a loss": (lambda y: (y.mean(), y), [None, "prob"], ["prob"]), "a named tuple": (lambda y: Pair(y.sum(), y), [None, "prob"], ["prob"]),
    "a loss behind": (lambda y: (y, y.std(0)), ["prob", None], ["prob"]),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_scores_beside_a_loss(name, want, tmp_path):
    ends, outputs, names = OUTPUTS[name]
    if name == "a dataclass":
        names = ["ctr"]  # its only tensor
    got, value = exported(tmp_path / "m.h5", Net(ends), outputs=outputs)
    assert got == names and value.shape == (4, 1) and np.abs(value[:, 0] - want).max() <= 1e-6


@pytest.mark.parametrize("name, cure", [("a dataclass with a loss", r"outputs=\['prob'\]"), ("a dict with a loss", r"outputs=\['prob'\]"),
                                        ("a tuple with a loss", r"outputs=\[None, 'output_1'\]"), ("a loss behind", r"outputs=\['output_0', None\]")])
def test_a_loss_is_told_with_its_cure(name, cure, tmp_path):
    with pytest.raises(UnsupportedModelError, match=f"as a loss is; name the scores, {cure}"):
        exported(tmp_path / "m.h5", Net(OUTPUTS[name][0]))


def test_wrong_names_of_outputs(tmp_path):
    with pytest.raises(ValueError, match="no tensor 'click', only 'loss', 'prob'"):
        exported(tmp_path / "m.h5", Net(OUTPUTS["a dict with a loss"][0]), outputs=["click"])
    with pytest.raises(ValueError, match="1 names for 2 outputs; None"):
        exported(tmp_path / "m.h5", Net(lambda y: (y, 1 - y)), outputs=["click"])
    with pytest.raises(UnsupportedModelError, match="no score beside it"):
        exported(tmp_path / "m.h5", Net(torch.mean))


def _assert(model, item, price, y):
    assert price.min() > -1e9


def _guard(model, item, price, y):
    if torch.isnan(y).any():
        raise ValueError("NaN")


def _all_guard(model, item, price, y):
    assert bool(torch.all(item >= 0))


@pytest.mark.parametrize("check", [_assert, _guard, _all_guard])
def test_checks_belong_to_training(check, want, tmp_path):
    with pytest.raises(UnsupportedModelError, match=r"at test_wrapped_models.py:\d+: .*`if self.training:`"):
        exported(tmp_path / "m.h5", Net(checks=check))
    moved = Net(checks=lambda model, *given: check(model, *given) if model.training else None)
    assert np.abs(exported(tmp_path / "m.h5", moved)[1][:, 0] - want).max() <= 1e-6
    shape = Net(checks=lambda model, item, price, y: contextlib.nullcontext() if item.dim() == 1 and item.dtype == torch.int64 else 1 / 0)
    exported(tmp_path / "m.h5", shape)  # of what does not depend on the rows


class Nested(nn.Module):
    """Takes a dict of dicts."""

    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, batch):
        return self.net(batch["user"]["item"], batch["context"][0])


def test_nested_inputs_are_told_how(want, tmp_path):
    for nested in ({"user": {"item": EXAMPLE["item"]}, "context": EXAMPLE["price"]}, {"user": EXAMPLE["item"], "context": [EXAMPLE["price"]]}):
        with pytest.raises(ValueError, match="example: input '(user|context)' is a (dict|list) of tensors; give one tensor an input, and call="):
            exported(tmp_path / "m.h5", Nested(), example=nested)
    value = exported(tmp_path / "m.h5", Nested(), call=lambda model, x: model({"user": {"item": x["item"]}, "context": [x["price"]]}))[1]
    assert np.abs(value[:, 0] - want).max() <= 1e-6


NOTEBOOK = """
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Packed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.gru, self.out = torch.nn.Embedding(9, 3), torch.nn.GRU(3, 4, batch_first=True), torch.nn.Linear(4, 1)

    def forward(self, history, n):
        packed = pack_padded_sequence(self.e(history), n.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.gru(packed)[0], batch_first=True, total_length=history.size(1))
        return self.out(states.sum(1)).squeeze(-1)
"""


def test_packed_sequences_in_a_file_that_is_no_module(tmp_path):
    space = {"__name__": "not a module"}
    exec(compile(NOTEBOOK, "notebook.py", "exec"), space)  # noqa: S102
    torch.manual_seed(2)
    model = space["Packed"]().eval()
    example = {"history": torch.tensor([[1, 2, 0], [3, 4, 5], [6, 0, 0]]), "n": torch.tensor([2, 3, 1])}
    from_torch(model, tmp_path / "m.h5", example=example, features={"history": {"vocab_size": 9}, "n": {"kind": "length", "of": "history"}})
    with torch.no_grad(), Bundle(tmp_path / "m.h5") as bundle:
        assert np.abs(bundle.golden["value"][:, 0] - model(**example).numpy()).max() <= 1e-6
    assert space["pack_padded_sequence"] is torch.nn.utils.rnn.pack_padded_sequence
