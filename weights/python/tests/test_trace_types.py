"""Truth values, integers and 64-bit numbers: torch computes by type, so the bundle is exact on the rows where types matter, or refuses.

The oracle is the model itself, called here on rows that the random check does not hit: equal ids, zeros, huge ids.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Bundle, Executor, Rows, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402

BIG = 100000
IDS = {"a": torch.tensor([0, 0, 5, 1]), "b": torch.tensor([0, 7, 0, 1])}


class Body(nn.Module):
    """body(inputs) as a number, scaled by a weight."""

    def __init__(self, body):
        super().__init__()
        self.body, self.w = body, nn.Parameter(torch.tensor(1.7))

    def forward(self, inputs):
        return self.body(inputs).float().view(-1, 1) * self.w + 0.3


def exported(body, path, example, features):
    model = Body(body).eval()
    from_torch(model, path, features=features, example=example)
    return model


def worst(model, path, example, features, rows):
    """The largest error on these very rows, relative to max(1, |score|); NaN fails."""
    inputs = Inputs(model, example, features)
    with torch.no_grad():
        want = model(rows)[:, 0].numpy()
    with Bundle(path) as bundle:
        inputs.read_only({f["name"] for f in bundle.features})
        got = Executor(bundle).run(Rows.from_columns(bundle, inputs.columns(rows)))["value"]["ctr"]
    assert np.isfinite(want).all() and np.isfinite(got).all()
    return (np.abs(got - want) / np.maximum(1, np.abs(want))).max()


def both(a, b):
    return torch.stack([a == 0, b == 0], 1)


#: Bodies of two ids of large vocabularies, which random rows never make 0 together.
EXACT = {
    "bool + bool": lambda a, b: (a == 0) + (b == 0), "bool.add_(bool)": lambda a, b: (a == 0).add_(b == 0),
    "bool * bool": lambda a, b: (a == 0) * (b == 0), "bool + bool in where": lambda a, b: torch.where((a == 0) + (b == 0), 1.0, 2.0),
    "bool + True": lambda a, b: ((a == 0) + True) * (b == 0), "int + int > 0": lambda a, b: ((a == 0).int() + (b == 0).int()) > 0,
    "int + int": lambda a, b: (a == 0).int() + (b == 0).int(), "(count).bool()": lambda a, b: ((a == 0).long() + (b == 0).long()).bool(),
    "1 - byte": lambda a, b: (1 - (a == 0).byte()) * (b == 0).byte(), "sum of bools": lambda a, b: both(a, b).sum(1),
    "not a count": lambda a, b: torch.logical_not((a == 0).long() + (b == 0).long()),
    "bool of floats": lambda a, b: ((a == 0).float() + (b == 0).float()).bool(),
    "uint8 of one id": lambda a, b: a.byte() * 200 + 200, "uint8 within": lambda a, b: (a == 0).byte() * 100 + (b == 0).byte() * 100,
}


@pytest.mark.parametrize("name", EXACT)
def test_truth_values_and_counts_are_exact(name, tmp_path):
    features = {"a": {"vocab_size": BIG}, "b": {"vocab_size": BIG}}
    model = exported(lambda d: EXACT[name](d["a"], d["b"]), tmp_path / "m.h5", IDS, features)
    assert worst(model, tmp_path / "m.h5", IDS, features, IDS) <= 1e-6


#: (body of two ids, vocabulary, what the refusal says)
REFUSED = {
    "uint8 + uint8": (lambda a, b: (a == 0).byte() * 200 + (b == 0).byte() * 200, BIG, "torch.uint8, which wraps around"),
    "uint8 - uint8": (lambda a, b: (a == 0).byte() - (b == 0).byte(), BIG, "torch.uint8, which wraps around"),
    "int8 * int8": (lambda a, b: (a % 100).to(torch.int8) * (b % 100).to(torch.int8), BIG, "torch.int8, which wraps around"),
    "int16 + int16": (lambda a, b: (a % 30000).short() + (b % 30000).short(), BIG, "torch.int16, which wraps around"),
    "int32 * int32": (lambda a, b: a.int() * b.int(), BIG, "torch.int32, which wraps around"),
    "count as int8": (lambda a, b: (a + b).to(torch.int8), BIG, "torch.int8, which wraps around"),
    "int64 * int64": (lambda a, b: (a * b).float() / 1e9, BIG, "computes whole numbers up to 99998"),
    "(a + b) & 1": (lambda a, b: (a + b) & 1, BIG, "works on the bits of numbers that it computes"),
    "ids beyond 2^24": (lambda a, b: a == b, 2**24 + 9, "ids of feature 'a' as numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_integers_that_wrap_or_round_are_refused(name, tmp_path):
    body, size, text = REFUSED[name]
    with pytest.raises(UnsupportedModelError, match=rf"test_trace_types\.py:\d+: .*{text}"):
        exported(lambda d: body(d["a"], d["b"]), tmp_path / "m.h5", IDS, {"a": {"vocab_size": size}, "b": {"vocab_size": size}})


TIMES = {"now": torch.tensor([1700000100, 1700000000]), "then": torch.tensor([1700000000, 1699999000])}
NUMBERS = {"now": {"kind": "numeric"}, "then": {"kind": "numeric"}}


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64, torch.int32])
@pytest.mark.parametrize("body", [lambda d: (d["now"] - d["then"]).float() / 3600, lambda d: d["now"] > 1700000050])
def test_64_bit_numbers_are_refused(body, dtype, tmp_path):
    example = {key: t.to(dtype) for key, t in TIMES.items()}
    with pytest.raises(UnsupportedModelError, match=rf"feature 'now' in {dtype}, .*subtract or scale it in preprocessing .*float32"):
        exported(body, tmp_path / "m.h5", example, NUMBERS)


@pytest.mark.parametrize("body", [lambda d: d["now"].float() / 1e9 - d["then"].float() / 1e9, lambda d: d["now"] * torch.tensor([1e-9])])
def test_whole_numbers_that_the_model_makes_floats_first_are_carried_over(body, tmp_path):
    model = exported(body, tmp_path / "m.h5", TIMES, NUMBERS)
    assert worst(model, tmp_path / "m.h5", TIMES, NUMBERS, TIMES) <= 1e-6


@pytest.mark.parametrize("body", [
    lambda d: torch.where(d["f"] == 1, 1 / d["p"], torch.zeros(())), lambda d: (1 / d["p"]).masked_fill(d["f"] == 0, 0.0),
    lambda d: torch.where(d["f"] == 1, torch.log(d["p"].abs()), d["p"]), lambda d: torch.where(d["p"] > 0, 1 / d["p"], 0.0 * d["p"])])
def test_a_choice_lets_nothing_through_of_what_it_does_not_choose(body, tmp_path):
    example, features = {"f": torch.tensor([0, 0, 1, 1]), "p": torch.tensor([0.0, 1.0, 2.0, 0.5])}, {"f": {"vocab_size": 2}, "p": {}}
    model = exported(body, tmp_path / "m.h5", example, features)
    assert worst(model, tmp_path / "m.h5", example, features, example) <= 1e-6
