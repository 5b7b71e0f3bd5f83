"""GRU and LSTM nodes as torch's own, which the tracer sees step by step."""

import torch


def _checked(op, values, gates):
    """(x, weights, hidden weights, biases, first state) of a node, all of one direction after another; refuses what torch does not have."""
    x, w, r, b, lengths = (list(values) + [None] * 8)[:5]
    if op.attr("activations") or op.attr("clip") is not None or op.attr("layout", 0) or op.attr("input_forget", 0):
        op.refuse("has activations of its own, clip, layout or input_forget: export it with the defaults")
    if lengths is not None and (not op.known[4] or lengths.reshape(-1).tolist() != [x.shape[0]] * lengths.numel()):
        op.refuse("has sequences of lengths of their own; mask the result by the length")
    if not all(op.known[1:3]) or b is not None and not op.known[3]:
        op.refuse("takes weights that depend on the rows")
    if op.attr("direction", "forward") == "reverse":
        op.refuse("runs backwards only; reverse its input")
    b = torch.zeros(w.shape[0], 2 * gates * op.attr("hidden_size"), dtype=w.dtype) if b is None else b
    return x, w, r, b


def _parts(tensor, order):
    """Gates in torch's order."""
    gates = torch.chunk(tensor, len(order), 0)
    return torch.cat([gates[i] for i in order], 0)


def _weights(w, r, b, order):
    """torch's flat list of weights: input, hidden, their biases, for each direction."""
    out = []
    for i in range(w.shape[0]):
        own, hidden = torch.chunk(b[i], 2, 0)
        out += [_parts(w[i], order), _parts(r[i], order), _parts(own, order), _parts(hidden, order)]
    return out


def _state(op, values, at, x, w):
    """The state at the start, zeros where none is given."""
    if len(values) > at and values[at] is not None:
        if not op.known[at]:
            return values[at]
        return torch.tensor(values[at].tolist(), dtype=x.dtype)  # functionalize knows it then, and torch.gru writes into it
    return torch.zeros(w.shape[0], x.shape[1], op.attr("hidden_size"), dtype=x.dtype)


def _by_direction(y, directions):
    """[T, rows, directions * H] as ONNX has it: [T, directions, rows, H]."""
    return torch.stack(torch.chunk(y, directions, 2), 1)


def gru(op, *values):
    """GRU whose reset gate comes behind the product, as in torch and Keras."""
    if not op.attr("linear_before_reset", 0):
        op.refuse("linear_before_reset=0: torch and Keras (reset_after=True) have 1")
    x, w, r, b = _checked(op, values, 3)
    y, h = torch.gru(x, _state(op, values, 5, x, w), _weights(w, r, b, (1, 0, 2)), True, 1, 0.0, False, w.shape[0] == 2, False)
    return _by_direction(y, w.shape[0]), h


def lstm(op, *values):
    """LSTM without peepholes."""
    if len(values) > 7 and values[7] is not None:
        op.refuse("has peepholes")
    x, w, r, b = _checked(op, values, 4)
    first = (_state(op, values, 5, x, w), _state(op, values, 6, x, w))
    y, h, c = torch.lstm(x, first, _weights(w, r, b, (0, 2, 3, 1)), True, 1, 0.0, False, w.shape[0] == 2, False)
    return _by_direction(y, w.shape[0]), h, c
