"""What leaves a trace by way of Python: values that a model reads, and sizes that depend on what the rows hold.

Python's own arithmetic and branches are not recorded, so nothing that depends on an input may reach them.
"""

import contextlib

from ..errors import UnsupportedModelError

#: Operators that hand a tensor's content to Python; every operator that gives a Python number does too, but for those of _FORM.
_READS = ("_local_scalar_dense", "is_nonzero", "equal", "allclose", "item")
#: Operators that tell a tensor's form.
_FORM = ("size", "sym_size", "stride", "sym_stride", "numel", "sym_numel", "dim", "storage_offset", "sym_storage_offset", "is_contiguous",
         "_nested_tensor_from_mask_left_aligned")  # nn.TransformerEncoder asks it whether it may skip padding, which changes no score
#: Operators whose result has as many entries as the content says.
_SIZED_BY_CONTENT = ("nonzero", "nonzero_numpy", "argwhere", "masked_select", "bincount", "repeat_interleave", "unique", "_unique",
                     "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "_histogramdd_bin_edges")
#: Tensor's methods that hand its content to Python or NumPy past the operators.
_METHODS = ("numpy", "__array__", "tolist", "storage", "untyped_storage", "_typed_storage", "typed_storage", "__dlpack__", "apply_", "map_", "map2_")


def check_read(node):
    """Refuses an operator by which Python sees what the rows hold. The outputs need not depend on it: a branch leaves no edge."""
    if not node.varies:
        return
    if node.base in _READS or isinstance(node.value, (bool, int, float, complex)) and node.base not in _FORM:
        _refuse_read(node.place())
    if node.base == "masked_select" and not node.args[1].varies:
        return  # as many as the mask of the model has ones
    if node.base in _SIZED_BY_CONTENT or node.base == "index" and _picks_by_truth(node):
        raise UnsupportedModelError(f"{node.place()}: how many entries it gives depends on what the rows hold, and Python may count them; "
                                    "multiply by a mask or write torch.where instead")


def _refuse_read(place):
    raise UnsupportedModelError(f"{place}: Python reads a value that depends on the rows, and what it does with it cannot be seen; write "
                                "the choice with torch.where or a mask, and put a check (assert, a guard against NaN) under `if self.training:`")


def _picks_by_truth(node):
    """x[mask]: as many entries as the mask has ones."""
    indices = [i for i in node.args[1] if i is not None]
    return any(i.varies and str(i.value.dtype) in ("torch.bool", "torch.uint8") for i in indices)


@contextlib.contextmanager
def guarded(recorder, place):
    """While a model is traced its tensors are wrappers without memory of their own: the methods that read memory are refused on what
    depends on the rows, and read the value itself elsewhere. `place(text)`: where the model is, for messages."""
    import torch

    own = {name: (name in vars(torch.Tensor), getattr(torch.Tensor, name)) for name in _METHODS if hasattr(torch.Tensor, name)}
    for name, (_, method) in own.items():
        setattr(torch.Tensor, name, _guard(recorder, place, name, method))
    try:
        yield
    finally:
        for name, (is_own, method) in own.items():
            if is_own:
                setattr(torch.Tensor, name, method)
            else:
                delattr(torch.Tensor, name)


def _guard(recorder, place, name, method):
    import torch

    def read(self, *args, **keywords):
        if torch._is_functional_tensor(self):
            torch._sync(self)
            self = torch._from_functional_tensor(self)
            node = recorder.of.get(id(self))
            if node is None or node.varies:
                _refuse_read(place(f"Tensor.{name}"))
        elif id(self) in recorder.of and recorder.of[id(self)].varies:
            _refuse_read(place(f"Tensor.{name}"))
        return method(self, *args, **keywords)
    return read
