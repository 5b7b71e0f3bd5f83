"""What Python asks of the number of rows while a model runs: the numbers that it is compared with are where the model may branch."""

import math

import numpy as np

#: The largest batch that a model is run on to see whether a branch changes its scores.
LARGEST = 1 << 17
_UNSEEN = 4097  #: run where len() was asked for, which gives a plain number


class _Rows(int):
    """per * rows + shift, which remembers in `met` the number of rows at which it would be what it is compared with."""

    def __new__(cls, value, per, shift, met):
        self = super().__new__(cls, value)
        self.per, self.shift, self.met = per, shift, met
        return self

    def _meet(self, other):
        if not isinstance(other, _Rows) and isinstance(other, (int, float)) and self.per:
            self.met.add((other - self.shift) / self.per)

    __hash__ = int.__hash__


def _compared(name):
    def method(self, other):
        self._meet(other)
        return getattr(int, name)(self, other)
    return method


def _moved(name, per, shift):
    def method(self, other):
        result = getattr(int, name)(self, other)
        if isinstance(other, _Rows) or result is NotImplemented or not isinstance(result, int):
            return result
        return _Rows(result, per(self.per, other), shift(self.shift, other), self.met)
    return method


for _name in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"):
    setattr(_Rows, _name, _compared(_name))
for _names, _per, _shift in ((("__add__", "__radd__"), lambda p, k: p, lambda s, k: s + k), (("__sub__",), lambda p, k: p, lambda s, k: s - k),
                             (("__rsub__",), lambda p, k: -p, lambda s, k: k - s), (("__mul__", "__rmul__"), lambda p, k: p * k, lambda s, k: s * k),
                             (("__floordiv__",), lambda p, k: p / k, lambda s, k: s / k)):
    for _name in _names:
        setattr(_Rows, _name, _moved(_name, _per, _shift))


def branches(run, rows):
    """Batch sizes on both sides of each number that run() compares its number of rows with. `rows`: how many it has, a prime."""
    import torch
    from torch.overrides import TorchFunctionMode

    met, asked = set(), []

    def counted(n):
        return _Rows(n, n // rows, 0, met) if n and n % rows == 0 else n

    class Sizes(TorchFunctionMode):
        """Gives sizes that remember."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Size):
                return torch.Size([counted(n) for n in out])
            if func is torch.Tensor.__len__:
                asked.append(out)
            return counted(out) if func is torch.Tensor.size else out

    try:
        with Sizes():
            run()
    except Exception:  # noqa: BLE001  (torch takes no such number somewhere: what was met until then counts)
        pass
    near = {int(n) + k for n in met if np.isfinite(n) and n > 0 for k in (-1, 0, 1, 2 if n != math.floor(n) else 1)}
    return {n for n in near | ({_UNSEEN} if any(n and n % rows == 0 for n in asked) else set()) if n > 0}
