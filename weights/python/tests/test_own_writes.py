"""The recorder where an operator writes in place beneath torch's functionalize, as composed operators do from torch 2.0 on: a record holds
the functional operator, what stood there before the write is kept, and what a write reached by way of another view is not read."""

import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from dpi_export import UnsupportedModelError, from_torch  # noqa: E402
from dpi_export.trace import capture  # noqa: E402
from dpi_export.trace.ir import Node  # noqa: E402

X = torch.linspace(-2, 2, 24).reshape(4, 6)


def recorded(run, x=None):
    """The Nodes of run(x), without functionalize."""
    x = X.clone() if x is None else x
    recorder = capture._recorder_class()({}, {}, len(x), None)
    recorder.nodes.append(Node("input", value=x, varies=True, name=0))
    recorder.of[id(x)] = recorder.nodes[0]
    with torch.no_grad(), recorder:
        run(x)
    return recorder.nodes


def ops(nodes):
    return [node.base for node in nodes if node.op not in ("input", "constant", "getitem")]


def test_a_write_is_the_functional_operator():
    def run(x):
        y = x * 2
        y.add_(x).clamp_(-1, 1)
        y.relu()
    nodes = recorded(run)
    assert ops(nodes) == ["mul", "add", "clamp", "relu"]
    wanted = [X, X * 2, X * 3, (X * 3).clamp(-1, 1), (X * 3).clamp(-1, 1).relu()]
    found = [node.value for node in nodes if node.op != "constant"]
    assert all(torch.equal(a, b) for a, b in zip(found, wanted)) and len(found) == len(wanted)
    assert nodes[-1].args[0].base == "clamp" and nodes[-1].args[0].args[0].base == "add"


def test_gates_that_lie_in_one_memory_are_written_apart():
    """As nn.LSTM does it; every other column too, whose addresses interleave."""
    def run(x):
        gates = x * 1
        a, b = gates.unsafe_chunk(2, 1)
        a.sigmoid_()
        b.tanh_()
        a.mul(b)

    def every_other(x):
        y = x * 1
        a, b = y[:, ::2], y[:, 1::2]
        a.sigmoid_()
        a.mul(b)
    halves = recorded(run)
    assert torch.equal(halves[-1].value, X[:, :3].sigmoid() * X[:, 3:].tanh())
    assert [n.args[0].value.tolist() for n in halves if n.base in ("sigmoid", "tanh")] == [X[:, :3].tolist(), X[:, 3:].tolist()]
    split = next(n for n in halves if n.base == "unsafe_split" or n.base == "unsafe_chunk")
    assert [part.tolist() for part in split.value] == [X[:, :3].tolist(), X[:, 3:].tolist()]
    assert torch.equal(recorded(every_other)[-1].value, X[:, ::2].sigmoid() * X[:, 1::2])


def test_turned_in_place():
    def run(x):
        y = x * 1
        y.transpose_(0, 1)
        y.exp()
    nodes = recorded(run)
    assert [n.op for n in nodes[-2:]] == ["aten.transpose.int", "aten.exp.default"] and nodes[-3].shape == (4, 6) and nodes[-1].shape == (6, 4)


@pytest.mark.parametrize("how", ["whole", "part", "turned", "pieces"])
def test_what_was_written_over_by_way_of_another_view_is_not_read(how):
    def run(x):
        y = x * 1
        view = {"whole": lambda: y.view(-1), "part": lambda: y[:, 2:4], "turned": lambda: y.t(), "pieces": lambda: y.split(3, 1)[1]}[how]()
        if how == "turned":
            view.add_(1)
            y.exp()
        else:
            y.add_(1)
            view.exp()
    with pytest.raises(UnsupportedModelError, match="written over by way of another view"):
        recorded(run)


def test_memory_of_the_model_or_of_an_input_is_not_written_over():
    """Such a write keeps its name, which no rule takes."""
    weight = torch.ones(6)
    assert ops(recorded(lambda x: x.add_(1))) == ["add_"]
    assert ops(recorded(lambda x: x[:, :2].mul_(2)))[-1] == "mul_"
    assert ops(recorded(lambda x: weight.add_(x[0])))[-1] == "add_"
    assert ops(recorded(lambda x: (weight * x, weight[:2].mul_(2))))[-1] == "mul_"


class Composed(torch.nn.Module):
    """Operators that torch composes of others in C++, and writes in place in."""

    def __init__(self, how):
        super().__init__()
        self.table, self.out, self.how = torch.nn.Embedding(9, 6), torch.nn.Linear(6, 1), how

    def forward(self, ids):
        e = self.table(ids)
        return torch.sigmoid(self.out(self.how(e[:, 0], e[:, 1])))


@pytest.mark.parametrize("how", [lambda a, b: torch.ldexp(a, b), lambda a, b: a * torch.nn.functional.cosine_similarity(a, b)[:, None],
                                 lambda a, b: a * torch.nn.functional.pairwise_distance(a, b, keepdim=True),
                                 lambda a, b: torch.lstm_cell(a, (b, b), *(torch.ones(24, 6) / 9,) * 2)[1],
                                 lambda a, b: torch.rnn_tanh_cell(a, b, *(torch.ones(6, 6) / 9,) * 2),
                                 lambda a, b: torch.gru_cell(a, b, *(torch.ones(18, 6) / 9,) * 2)],
                         ids=["ldexp", "cosine_similarity", "pairwise_distance", "lstm_cell", "rnn_tanh_cell", "gru_cell"])
def test_composed_operators(how, tmp_path):
    """from_torch compares the bundle with the model in float64 before it writes."""
    torch.manual_seed(2)
    from_torch(Composed(how).eval(), tmp_path / "m.h5", features={"ids": {"vocab_size": 9, "kind": "sequence"}},
               example={"ids": torch.randint(0, 9, (8, 2))})
    assert (tmp_path / "m.h5").exists()
