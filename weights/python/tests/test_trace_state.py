"""What a model keeps between calls: caches stay usable, a state that a score depends on is refused by name, and the model is left as it was."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from dpi_export import Bundle, Executor, UnsupportedModelError, from_torch  # noqa: E402

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(0))


class Keeping(nn.Module):
    """A Linear, and something that a test does with the model's own attributes."""

    def __init__(self, body, **attributes):
        super().__init__()
        torch.manual_seed(0)
        self.head, self.body = nn.Linear(3, 1), body
        for key, value in attributes.items():
            if isinstance(value, torch.Tensor):
                self.register_buffer(key, value)
            else:
                setattr(self, key, value)

    def forward(self, x):
        return self.head(self.body(self, x))


def mask_made_once(self, x):
    if self.mask is None:
        self.mask = torch.triu(torch.ones(3, 3))
    return x @ self.mask


def positions_by_length(self, x):
    if x.shape[1] not in self.cache:
        self.cache[x.shape[1]] = torch.arange(x.shape[1]).float()
    return x + self.cache[x.shape[1]]


def shown_outside(self, x):
    self.shown = x * 2
    return self.shown


def size_noted(self, x):
    self.size = x.shape[0]
    return x


#: Models that may keep what they keep.
KEPT = {"a mask made once": (mask_made_once, {"mask": None}), "positions by length": (positions_by_length, {"cache": {}}),
        "a value shown outside": (shown_outside, {"shown": None}), "the batch size": (size_noted, {"size": 0})}


@pytest.mark.parametrize("name", KEPT)
def test_caches_are_carried_over_and_stay_usable(name, tmp_path):
    body, attributes = KEPT[name]
    model = Keeping(body, **copy.deepcopy(attributes)).eval()
    from_torch(model, tmp_path / "m.h5", features={"x": {}}, example=X)
    torch.save(copy.deepcopy(model).state_dict(), tmp_path / "s.pt")
    with torch.no_grad():
        want = model(X)[:, 0].numpy()
    with Bundle(tmp_path / "m.h5") as bundle:
        assert np.abs(Executor(bundle).run(bundle.golden["rows"])["value"]["ctr"] - want).max() <= 1e-6
    assert not any(isinstance(v, torch.Tensor) and torch._is_functional_tensor(v) for v in vars(model).values())


def running_mean(self, x):
    self.mu.mul_(0.9).add_(x.mean(0), alpha=0.1)
    return x - self.mu


def replaced_buffer(self, x):
    self.mu = self.mu * 0.5
    return x * self.mu


def tiny_decay(self, x):
    self.mu.mul_(0.9999999)
    return x * self.mu


def data_changed(self, x):
    self.head.weight.data.mul_(0.5)
    return x


def call_before(self, x):
    y = x if self.prev is None else x - self.prev
    self.prev = x.mean(0).detach()
    return y


def calls_counted(self, x):
    self.calls += 1
    return x * (1.0 if self.calls < 20 else 2.0)


STATE = {"a running mean": (running_mean, {"mu": torch.zeros(3)}, "forward changes 'mu'"),
         "a replaced buffer": (replaced_buffer, {"mu": torch.ones(3)}, "forward changes 'mu'"),
         "a tiny decay": (tiny_decay, {"mu": torch.ones(3)}, "forward changes 'mu'"),
         "a parameter's data": (data_changed, {}, "forward changes 'head.weight'"),
         "the call before": (call_before, {"prev": None}, "forward reads 'prev', which the call before it left"),
         "calls counted": (calls_counted, {"calls": 0}, r"forward changes self\.calls from \d+ to \d+")}


@pytest.mark.parametrize("name", STATE)
def test_state_is_refused_by_name_and_put_back(name, tmp_path):
    body, attributes, text = STATE[name]
    model = Keeping(body, **copy.deepcopy(attributes)).eval()
    before = {key: t.clone() for key, t in model.state_dict().items()}
    with pytest.raises(UnsupportedModelError, match=text):
        from_torch(model, tmp_path / "m.h5", features={"x": {}}, example=X)
    assert not (tmp_path / "m.h5").exists()
    assert all(torch.equal(t, before[key]) for key, t in model.state_dict().items())
