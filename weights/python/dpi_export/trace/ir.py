"""The recorded graph: one Node for each call of an ATen operator, with the tensor that it gave."""


class Node:
    """`op` is the operator's name ("aten.addmm.default"); `args` and `kwargs` hold Nodes where the call had tensors. `value` is what the
    call gave at capture: a tensor, or a tuple of tensors. `varies`: the value depends on an input. Leaves have op "input" (`name` is its
    place among the model's inputs) or "constant" (`name` is the parameter's or buffer's, None for other tensors)."""

    __slots__ = ("op", "args", "kwargs", "value", "module", "line", "varies", "name", "layout")

    def __init__(self, op, args=(), kwargs=None, value=None, module="", line="", varies=False, name=None):
        self.op, self.args, self.kwargs, self.value = op, args, kwargs or {}, value
        self.module, self.line, self.varies, self.name, self.layout = module, line, varies, name, None

    @property
    def base(self):
        """The operator without namespace and overload: "addmm"."""
        return self.op.split(".")[1] if "." in self.op else self.op

    @property
    def shape(self):
        """Dims of the value, the axis of rows among them."""
        return tuple(self.value.shape)

    def inputs(self):
        """The Nodes among the arguments, in order."""
        return list(walk((self.args, self.kwargs)))

    def place(self):
        """Where the model made this call, for messages."""
        text = f"layer '{self.module}'" if self.module else "the model"
        return f"{text}: {self.op}" + (f" at {self.line}" if self.line else "")


def walk(held):
    """Every Node inside nested tuples, lists and dicts."""
    if isinstance(held, Node):
        yield held
    elif isinstance(held, (list, tuple)):
        for item in held:
            yield from walk(item)
    elif isinstance(held, dict):
        for item in held.values():
            yield from walk(item)


def replace(held, of):
    """Nested arguments with of(node) in place of each Node."""
    if isinstance(held, Node):
        return of(held)
    if isinstance(held, (list, tuple)):
        return type(held)(replace(item, of) for item in held)
    if isinstance(held, dict):
        return {key: replace(item, of) for key, item in held.items()}
    return held


class Trace:
    """Nodes in order of execution; `outputs` are (name, Node) pairs; `rows` is the batch size that it was captured with;
    `counts`: some of the rows are kept by a mask, so that their number is a secret of theirs."""

    def __init__(self, nodes, outputs, rows, counts=False):
        self.nodes, self.outputs, self.rows, self.counts = nodes, outputs, rows, counts

    def live(self):
        """The nodes that an output depends on, in order: the rest, as gates that nothing reads, may do what it wants with the rows."""
        wanted, stack = set(), [node for _, node in self.outputs]
        while stack:
            node = stack.pop()
            if id(node) not in wanted:
                wanted.add(id(node))
                stack.extend(node.inputs())
        return [node for node in self.nodes if id(node) in wanted]
