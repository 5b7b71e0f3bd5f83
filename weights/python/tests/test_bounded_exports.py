"""What an export may take and leave: memory of functions of an id, branches on the number of rows, what a model keeps of its first call, refusals
that the model catches."""

import resource
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace.features import Inputs  # noqa: E402
from torch import nn  # noqa: E402

X, IDS = torch.randn(8, 3), torch.arange(8)


class Scored(nn.Module):
    """A linear layer, and a function that changes what it gets: change(self, x)."""

    def __init__(self, change=lambda self, x: x):
        super().__init__()
        self.layer, self.change = nn.Linear(3, 1), change
        self.register_buffer("steps", torch.zeros(1))
        self.cache, self.seen = {}, []

    def forward(self, x):
        """[rows]"""
        return self.layer(self.change(self, x)).squeeze(1)


def exported(model, path, **keywords):
    """from_torch of x [rows, 3]."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return from_torch(model.eval(), path, features={"x": {}}, example=X, **keywords)


class Hashed(nn.Module):
    """A row of a small table, by a function of the id."""

    def __init__(self, function):
        super().__init__()
        self.table, self.function = nn.Embedding(100, 1), function

    def forward(self, i):
        """[rows]"""
        return self.table(self.function(i)).squeeze(-1)


@pytest.mark.parametrize("function", (lambda i: i % 100, lambda i: (i + 1) % 100, lambda i: (i > 5).long(), lambda i: (i.float() / 1e9).long()))
@pytest.mark.parametrize("size", (10**9, 2**31 - 2, (256 << 17) + 1))
def test_a_function_of_too_many_ids_is_refused(function, size, tmp_path):
    """Before it takes the memory: the table would have size entries of 8 bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnsupportedModelError, match=f"'i'.*{size}.*preprocessing"):
        from_torch(Hashed(function).eval(), tmp_path / "m.h5", features={"i": {"vocab_size": size}}, example={"i": IDS})
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def test_a_large_vocabulary_is_only_looked_up(tmp_path):
    """A function of the id below the limit is a table, and a plain lookup has no limit of its own."""
    from_torch(Hashed(lambda i: i % 100).eval(), tmp_path / "m.h5", features={"i": {"vocab_size": 100000}}, example={"i": IDS})


@pytest.mark.parametrize("branch", (
    lambda n: n > 300, lambda n: n >= 1024, lambda n: n == 700, lambda n: n * 3 > 1800, lambda n: n // 4 >= 200, lambda n: 5000 <= n,
    lambda n: min(n, 400) == 400, lambda n: n in (600, 601), lambda n: n - 100 > 900, lambda n: 1000 - n < 0))
@pytest.mark.parametrize("size", (lambda x: x.shape[0], lambda x: x.size(0), lambda x: x.size()[0]))
def test_a_branch_on_many_rows_is_refused(branch, size, tmp_path):
    """Whatever the number is: both sides of it are run."""
    with pytest.raises(UnsupportedModelError, match="number of rows"):
        exported(Scored(lambda self, x: x * 2 if branch(size(x)) else x), tmp_path / "m.h5")


def test_len_is_a_number_of_rows(tmp_path):
    """len(x) cannot be watched; a large batch is run instead."""
    with pytest.raises(UnsupportedModelError, match="number of rows"):
        exported(Scored(lambda self, x: x * 2 if len(x) > 2000 else x), tmp_path / "m.h5")


def test_a_branch_beyond_all_batches_is_refused(tmp_path):
    """A comparison that no run can decide."""
    with pytest.raises(UnsupportedModelError, match="compares its number of rows"):
        exported(Scored(lambda self, x: x * 2 if x.shape[0] > 10**7 else x), tmp_path / "m.h5")


def test_a_branch_that_changes_nothing_is_fine(tmp_path):
    """Blocks of rows, and a limit of the model's own."""
    def blocks(self, x):
        assert x.shape[0] <= 900, "too many"
        return torch.cat([x[:100], x[100:]]) if x.shape[0] > 600 else x

    exported(Scored(blocks), tmp_path / "m.h5")


def _attribute(self, x):
    if not hasattr(self, "mean"):
        self.mean = x.mean(0)
    return x - self.mean


def _entry(self, x):
    if "mean" not in self.cache:
        self.cache["mean"] = x.mean(0)
    return x - self.cache["mean"]


def _listed(self, x):
    if not self.seen:
        self.seen.append(x.std(0))
    return x / self.seen[0]


def _number(self, x):
    if not hasattr(self, "most"):
        self.most = float(x.abs().max())
    return x / self.most


@pytest.mark.parametrize("change", (_attribute, _entry, _listed, _number))
def test_what_is_kept_of_the_first_call_is_refused(change, tmp_path):
    """The first rows would decide all scores."""
    with pytest.raises(UnsupportedModelError, match="first rows"):
        exported(Scored(change), tmp_path / "m.h5")


def _shape_only(self, x):
    if not hasattr(self, "weights"):
        self.weights = torch.arange(1, x.shape[1] + 1).float()
    return x * self.weights


def _last(self, x):
    self.last, self.count = x.detach(), 3
    self.cache["last"] = x
    return x


@pytest.mark.parametrize("change", (_shape_only, _last))
def test_the_model_is_left_as_it_was(change, tmp_path):
    """Attributes, buffers, lists and dicts: what the export's calls made is gone."""
    model = Scored(change).eval()
    names, buffers = set(vars(model)), {k: v.clone() for k, v in model.state_dict().items()}
    exported(model, tmp_path / "m.h5")
    assert set(vars(model)) == names and model.cache == {} and model.seen == []
    assert all(torch.equal(v, buffers[k]) for k, v in model.state_dict().items())


@pytest.mark.parametrize("change", (lambda self, x: self.steps.add_(1) * 0 + x, _attribute))
def test_a_refused_model_is_left_as_it_was(change, tmp_path):
    """Too."""
    model = Scored(change).eval()
    names, buffers = set(vars(model)), {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(UnsupportedModelError):
        exported(model, tmp_path / "m.h5")
    assert set(vars(model)) == names
    assert all(torch.equal(v, buffers[k]) for k, v in model.state_dict().items())


@pytest.mark.parametrize("read", (lambda x: x.sum().item(), lambda x: bool((x > 0).any()), lambda x: int(x[0].argmax()), lambda x: x.tolist()))
@pytest.mark.parametrize("error", (Exception, ValueError))
def test_a_refusal_that_the_model_catches_stands(read, error, tmp_path):
    """What it does instead is not what it does without the exporter."""
    def change(self, x):
        try:
            return x * (1 + 0 * np.sum(read(x)))
        except error:
            return x

    with pytest.raises(UnsupportedModelError):
        exported(Scored(change), tmp_path / "m.h5")


class Matrix(nn.Module):
    """Ids in a matrix of floats, as DeepCTR-Torch has them."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, m):
        """[rows]: whether the id is in the upper half."""
        return (m[:, 0].long() > self.size // 2).float() + m[:, 1]


@pytest.mark.parametrize("dtype, exact", ((torch.float32, 2**24), (torch.float16, 2**11), (torch.bfloat16, 2**8)))
@pytest.mark.parametrize("kind", ("categorical", "sequence"))
def test_ids_that_floats_cannot_hold_are_refused(dtype, exact, kind, tmp_path):
    """The model itself would read the rows of other ids."""
    features = {"i": {"kind": kind, "columns": (0, 1), "vocab_size": exact + 2, "max_len": 1}, "x": {"kind": "numeric", "columns": 1}}
    with pytest.raises(UnsupportedModelError, match=rf"'i'.*{exact}.*int64"):
        from_torch(Matrix(exact), tmp_path / "m.h5", features=features, example=torch.zeros(4, 2, dtype=dtype))


def test_the_last_id_that_a_float_holds_is_fine():
    """2^24 is one."""
    features = {"i": {"columns": (0, 1), "vocab_size": 2**24 + 1, "kind": "categorical"}, "x": {"kind": "numeric", "columns": 1}}
    assert Inputs(Matrix(2**24), torch.zeros(4, 2), features).features["i"].vocab_size == 2**24 + 1
