"""Values of the operators that are no tensor."""


class Sequence(list):
    """A value of ONNX's sequence type: several tensors under one name."""
