"""Which tables an input's ids are looked up in, so that features= need not repeat how many ids there are."""

#: Operators that hand an id on as it is.
_SAME = ("Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand")


def table_sizes(graph, outputs):
    """{(input, column or None for all of it): rows of the smallest table that its ids are looked up in}"""
    held, sizes = {name: (name, None) for name, _, _ in graph.inputs}, {}
    small = {node.outputs[0]: node.attrs["value"] for node in graph.nodes if node.op == "Constant" and hasattr(node.attrs.get("value"), "size")}
    for node in graph.needed(outputs):
        at = 1 if node.op in ("Gather", "EmbeddingBag") and len(node.inputs) > 1 and node.inputs[0] in graph.tensors else 0
        source = held.get(node.inputs[at]) if node.inputs else None
        if source is None:
            continue
        if at == 1 and node.attrs.get("axis", 0) == 0 and graph.tensors[node.inputs[0]].dims:
            rows = int(graph.tensors[node.inputs[0]].dims[0])
            sizes[source] = min(rows, sizes.get(source, rows))
        elif node.op in _SAME:
            held[node.outputs[0]] = source
        elif source[1] is None and (column := _column(graph, node, small)) is not None:
            held[node.outputs[0]] = (source[0], column)
    return sizes


def _column(graph, node, small):
    """The one column that a node takes out of a matrix, or None."""
    def number(place):
        if place >= len(node.inputs):
            return None
        name = node.inputs[place]
        array = graph.array(name) if name in graph.tensors else small.get(name)
        return int(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    if node.op == "Gather" and node.attrs.get("axis", 0) == 1:
        return number(1)
    if node.op == "Slice" and number(3) == 1 and number(1) is not None and number(2) == number(1) + 1:
        return number(1)
    return None
