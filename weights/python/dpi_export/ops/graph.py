"""The checked op list that Builder fills and Bundle reads: shapes and row spaces of every value."""

from . import shapes
from ..errors import BundleError, check_name


class Graph:
    """Ops in topological order. `tables`: name -> dict(name, rows, dim, dtype); `param_shapes`: name -> dims."""

    def __init__(self, features, tables, param_shapes):
        self._features, self._tables, self._param_shapes = features, tables, param_shapes
        self.ops, self._shape, self._space, self._source = [], {}, {}, {}

    def add(self, op):
        """Checks an op dict and appends it. Raises BundleError that names op and reason."""
        check_name("op", op.get("name"))
        if op["name"] in self._shape:
            raise BundleError(f"op '{op['name']}' is defined twice")
        shapes.check_form(op)
        for name in op.get("in", []):
            if name not in self._shape:
                raise BundleError(f"op '{op['name']}' ({op['op']}): input '{name}' is not an op before it")
        self._shape[op["name"]] = shapes.infer_shape(op, self)
        self._space[op["name"]] = shapes.infer_space(op, self)
        if op["op"] == "Input":
            self._source[op["name"]] = op["attrs"]["feature"]
        self.ops.append(op)
        return op["name"]

    def __contains__(self, name):
        return name in self._shape

    def shape(self, name):
        """Dims of a value without the row axis, None for ids."""
        if not isinstance(name, str) or name not in self._shape:
            raise BundleError(f"value {name!r} does not exist")
        return self._shape[name]

    def space(self, name):
        """Row space of a value."""
        self.shape(name)
        return self._space[name]

    def feature(self, name):
        """Feature dict by name, or None."""
        return self._features.get(name)

    def source_feature(self, value):
        """The feature whose ids a value holds, or None."""
        return self._features.get(self._source.get(value))

    def table_info(self, name):
        """Table dict by name, or None."""
        return self._tables.get(name)

    def param_shape(self, name):
        """Dims of a parameter."""
        if name not in self._param_shapes:
            raise BundleError(f"parameter '{name}' does not exist")
        return self._param_shapes[name]


def check_heads(graph, heads):
    """Raises unless heads follow part 9."""
    if not 1 <= len(heads) <= 256:
        raise BundleError(f"{len(heads)} heads, expected 1 to 256")
    seen = set()
    for head in heads:
        check_name("head", head.get("name"))
        for key in head:
            if key not in ("name", "value", "logit", "activation"):
                raise BundleError(f"head '{head['name']}': key '{key}' is not known")
        if head["name"] in seen:
            raise BundleError(f"head '{head['name']}' is defined twice")
        seen.add(head["name"])
        for key in ("value", "logit"):
            if head.get(key) is None:
                if key == "value":
                    raise BundleError(f"head '{head['name']}': value is missing")
                continue
            if head[key] not in graph:
                raise BundleError(f"head '{head['name']}': {key} '{head[key]}' is not an op")
            dims = graph.shape(head[key])
            if dims is None or any(d != 1 for d in dims):
                raise BundleError(f"head '{head['name']}': {key} '{head[key]}' has dims {dims and list(dims)}, "
                                  "expected one element per row")
