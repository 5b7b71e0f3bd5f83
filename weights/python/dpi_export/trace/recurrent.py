"""Recurrent layers as one operator each, and packed sequences without packing, while a model is traced.

What torch packs depends on how long each row's sequence is, so a trace of it shows one batch only. Here a packed sequence is the padded
one with its mask, nn.GRU is the operator dpi.recurrent, and so is a layer that takes two packed sequences (inputs and attention) where
it computes, on random numbers, exactly what one of the attention GRUs does.
"""

import contextlib
import inspect
import itertools
import sys

from ..errors import UnsupportedModelError

_SCHEMA = ("recurrent(Tensor x, Tensor mask, Tensor? att, Tensor w_input, Tensor w_hidden, Tensor? b_input, Tensor? b_hidden, "
           "str kind) -> (Tensor, Tensor)")
_KINDS = ("agru", "augru", "vecatt")
_library = []


def compute(x, mask, att, w_input, w_hidden, b_input, b_hidden, kind):
    """(states [rows, T, m] with 0 where the mask is 0, last state): Recurrent of FORMAT.md part 7 with its gates r, z, n."""
    import torch

    m = w_hidden.shape[1]
    given, h, out = torch.nn.functional.linear(x, w_input, b_input), x.new_zeros(x.shape[0], m), []
    for t in range(x.shape[1]):
        own, g = torch.nn.functional.linear(h, w_hidden, b_hidden), given[:, t]
        r, z = torch.sigmoid(g[:, :m] + own[:, :m]), torch.sigmoid(g[:, m:2 * m] + own[:, m:2 * m])
        n = torch.tanh(g[:, 2 * m:] + r * own[:, 2 * m:])
        a = None if att is None else att[:, t, None]
        new = (1 - z) * n + z * h if kind == "gru" else (1 - a) * h + a * n if kind == "agru" else (
            1 - a * z) * h + a * z * n if kind == "augru" else (1 - a) * z * h + (1 - (1 - a) * z) * n
        valid = mask[:, t, None].bool()
        h = torch.where(valid, new, h)
        out.append(torch.where(valid, new, torch.zeros_like(new)))
    return torch.stack(out, 1), h


def _operator():
    import torch

    if not _library:
        library = torch.library.Library("dpi", "DEF")
        library.define(_SCHEMA)
        library.impl("recurrent", compute, "CompositeExplicitAutograd")
        _library.append(library)
    return torch.ops.dpi.recurrent


def _packed_class():
    from torch.nn.utils.rnn import PackedSequence

    class Packed(PackedSequence):
        """A padded sequence [rows, T, ...] and its mask [rows, T]."""

        def __new__(cls, padded, mask):
            made = tuple.__new__(cls, (None, None, None, None))
            made.padded, made.mask = padded, mask
            return made

        def _taken_apart(self, *_):
            raise UnsupportedModelError("a PackedSequence is taken apart: what stands where in it depends on the lengths of all rows; "
                                        "give it to nn.GRU or to pad_packed_sequence as it is")

        __iter__ = __getitem__ = _taken_apart
        data = batch_sizes = sorted_indices = unsorted_indices = property(_taken_apart)

    return Packed


# -- what stands in for torch's own ---------------------------------------------------------------------------------------
def _pack(packed):
    def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):  # noqa: A002  (torch's own name)
        import torch

        padded = input if batch_first else input.transpose(0, 1)
        lengths = torch.as_tensor(lengths)
        return packed(padded, torch.arange(padded.size(1), device=padded.device) < lengths.to(padded.device).view(-1, 1))
    return pack_padded_sequence


def _pad():
    def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
        if total_length is None or total_length != sequence.padded.size(1):
            raise UnsupportedModelError("pad_packed_sequence: how long its result is depends on the lengths of all rows; give total_length, "
                                        "as many positions as the packed sequence had")
        mask = sequence.mask.reshape(tuple(sequence.mask.shape) + (1,) * (sequence.padded.dim() - 2))
        padded = sequence.padded.masked_fill(~mask, padding_value)
        return padded if batch_first else padded.transpose(0, 1), sequence.mask.sum(1)
    return pad_packed_sequence


def _gru(packed, original, operator):
    def forward(self, input, hx=None):  # noqa: A002  (torch's own name)
        import torch

        is_packed = isinstance(input, packed)
        if hx is not None or not is_packed and (self.bidirectional or input.dim() != 3):
            if is_packed:
                raise UnsupportedModelError("nn.GRU over a packed sequence with a first state of its own; leave it out for zeros")
            return original(self, input, hx)
        padded = input.padded if is_packed else input if self.batch_first else input.transpose(0, 1)
        mask = input.mask if is_packed else torch.ones(padded.shape[:2], dtype=torch.bool, device=padded.device)
        last = []
        for layer in range(self.num_layers):
            ends = [_steps(self, operator, padded, mask, f"l{layer}")]
            if self.bidirectional:  # what is padding passes the state on, wherever it stands
                states, h = _steps(self, operator, padded.flip(1), mask.flip(1), f"l{layer}_reverse")
                ends.append((states.flip(1), h))
            padded = ends[0][0] if len(ends) == 1 else torch.cat([states for states, _ in ends], 2)
            last += [h for _, h in ends]
        out = packed(padded, mask) if is_packed else padded if self.batch_first else padded.transpose(0, 1)
        return out, torch.stack(last, 0)
    return forward


def _steps(gru, operator, padded, mask, name):
    """(states, last state) of one layer of an nn.GRU in one direction."""
    biases = (getattr(gru, f"bias_{part}_{name}") if gru.bias else None for part in ("ih", "hh"))
    return operator(padded, mask, None, getattr(gru, f"weight_ih_{name}"), getattr(gru, f"weight_hh_{name}"), *biases, "gru")


@contextlib.contextmanager
def leaves(model):
    """While it lasts, recurrent layers are the operator dpi.recurrent and packed sequences are padded ones."""
    import torch
    from torch.nn.utils import rnn

    found = {id(m): match for m in model.modules() if (match := _attention_gru(m)) is not None}
    packed, operator = _packed_class(), _operator()
    names = [(space, key, value, new) for value, new in ((rnn.pack_padded_sequence, _pack(packed)), (rnn.pad_packed_sequence, _pad()))
             for space in _name_spaces(model) for key, held in list(space.items()) if held is value]
    original = torch.nn.GRU.forward
    modules = [m for m in model.modules() if id(m) in found]
    try:
        for space, key, _, new in names:
            space[key] = new
        torch.nn.GRU.forward = _gru(packed, original, operator)
        for m in modules:
            m.forward = _attention_forward(packed, operator, *found[id(m)])
        yield
    finally:
        torch.nn.GRU.forward = original
        for space, key, value, _ in names:
            space[key] = value
        for m in modules:
            del m.forward


def _name_spaces(model):
    """The dicts in which functions look names up: those of all modules of Python, and of the layers' own files, which need not be modules (a
    notebook's, one run by runpy or exec)."""
    spaces = [vars(m) for m in list(sys.modules.values()) if m is not None and isinstance(getattr(m, "__dict__", None), dict)]
    forwards = [vars(cls).get("forward") for layer in model.modules() for cls in type(layer).__mro__]
    spaces += [held for f in forwards if isinstance(held := getattr(inspect.unwrap(f) if callable(f) else f, "__globals__", None), dict)]
    return list({id(space): space for space in spaces}.values())


# -- layers that take inputs and attention, both packed -----------------------------------------------------------------
def _attention_forward(packed, operator, kind, arrange, gives_last):
    def forward(inputs, scores=None, *_):
        out, last = operator(inputs.padded, inputs.mask, scores.padded, *arrange(), kind)
        return (packed(out, inputs.mask), last) if gives_last else packed(out, inputs.mask)
    return forward


def _attention_gru(module):
    """(kind, a function that gives its weights in the order r, z, n, whether it gives the last state too) of a layer that computes what
    an attention GRU does, on random sequences of several lengths; else None."""
    named = dict(module.named_parameters())
    matrices = [p for p in named.values() if p.dim() == 2]
    vectors = [p for p in named.values() if p.dim() == 1]
    if len(matrices) != 2 or len(vectors) not in (0, 2) or "forward" in vars(module):
        return None
    m = matrices[1].shape[1]
    if any(len(p) != 3 * m for p in matrices + vectors):
        return None
    given = _answer(module, matrices[0])
    if given is None:
        return None
    rows, outputs, last = given
    for order in itertools.permutations(range(3)):
        def arrange(order=order):
            import torch

            def moved(p):
                return p if order == (0, 1, 2) else torch.cat([p[i * m:(i + 1) * m] for i in order])
            return [moved(p) for p in matrices] + ([moved(p) for p in vectors] if vectors else [None, None])
        for kind in _KINDS:
            out, end = compute(*rows, *[None if p is None else p.double() for p in arrange()], kind)
            if (out - outputs).abs().max() < 1e-9 and (last is None or (end - last).abs().max() < 1e-9):
                return kind, arrange, last is not None
    return None


def _answer(module, matrix):
    """((x, mask, attention), states, last state or None) of a layer on random rows, or None where it does not take packed sequences."""
    import copy

    import torch
    from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

    g = torch.Generator().manual_seed(7)
    x = torch.randn(5, 4, matrix.shape[1], generator=g, dtype=torch.float64)
    att, lengths = torch.rand(5, 4, generator=g, dtype=torch.float64), torch.tensor([2, 4, 1, 3, 4])
    mask = torch.arange(4) < lengths.view(-1, 1)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        with torch.no_grad():
            out = copy.deepcopy(module).double()(*(pack_padded_sequence(v, lengths, batch_first=True, enforce_sorted=False)
                                                   for v in (x, att)))
    except Exception:  # noqa: BLE001  (a layer that is something else may fail in any way)
        return None
    finally:
        torch.set_default_dtype(before)
    out, last = out if isinstance(out, tuple) and not isinstance(out, PackedSequence) and len(out) == 2 else (out, None)
    if not isinstance(out, PackedSequence):
        return None
    states = pad_packed_sequence(out, batch_first=True, total_length=4)[0]
    if last is not None:
        last = last.reshape(last.shape[-2:]) if last.dim() == 3 else last
    return (x, mask, att), states, last


# -- the operator in a trace ------------------------------------------------------------------------------------------------
def lower_recurrent(lower, node):
    """Recurrent, once for all states and once for the last."""
    x, mask, att = node.args[:3]
    ins = [lower.floats(a).op for a in (x, mask, att) if a is not None]
    ins[1] = lower.g.reshape(ins[1], ins[1].shape[-1:]) if len(ins[1].shape) > 1 else ins[1]
    params = {role: None if p is None else lower.weight(p) for role, p in zip(("w_input", "w_hidden", "b_input", "b_hidden"), node.args[3:7])}
    return [lower.result(lower.g.op("Recurrent", ins, {"kind": node.args[7], "reset": "after", "output": output}, params), node, i)
            for i, output in enumerate(("all", "last"))]
