"""What the tensors that a model takes stand for: `features=` of from_torch, rows in the model's own form, columns of the bundle.

An input is one tensor that the model is given: an entry of a dict, a positional argument, or the one matrix. A feature is an input,
or some columns of one.
"""

import difflib
import inspect

import numpy as np

from ..bundle.builder import Builder
from ..errors import UnsupportedModelError
from ..library_run import check_carried, to_numpy
from ..padding import check_padding, pad_bags, random_bags, strip_padding

#: What a feature may say here; every other key goes to the Builder's feature call.
_OWN = ("kind", "input", "columns", "table", "vocab_size", "max_len", "dim", "of", "pad_id", "pad_side")
KINDS = ("categorical", "sequence", "numeric", "dense", "length")


class Feature:
    """One described feature. `column`: its first entry along the input's second dim, `width`: how many; None without columns."""

    def __init__(self, name, given):
        self.name, self.kind, self.input = name, given.get("kind"), given.get("input", name)
        columns = given.get("columns")
        self.columns = None if columns is None else ((columns, columns + 1) if isinstance(columns, int) else tuple(columns))
        self.vocab_size, self.max_len, self.dim = given.get("vocab_size"), given.get("max_len"), given.get("dim")
        self.of, self.pad_id, self.pad_side = given.get("of"), given.get("pad_id", 0), given.get("pad_side", "post")
        self.rules = {key: value for key, value in given.items() if key not in _OWN}
        self.length = None  #: of a sequence: the Feature that says how long it is

    @property
    def has_ids(self):
        """True for categorical and sequence features."""
        return self.kind in ("categorical", "sequence")

    def __repr__(self):
        return f"feature '{self.name}'"


def _check_rules(feature):
    """Refuses a rule that the Builder's call for this kind does not have, such as a misspelt one."""
    known = [] if feature.kind == "length" else [*inspect.signature(getattr(Builder, feature.kind)).parameters][2:]
    known = [key for key in known if key not in _OWN]
    for key in feature.rules:
        if key not in known:
            near = difflib.get_close_matches(key, [*known, *_OWN], 1)
            raise ValueError(f"{feature}: a {feature.kind} feature has no rule '{key}'{f', did you mean {near[0]!r}?' if near else ''} "
                             f"(rules: {', '.join(known) or 'none'})")


class Inputs:
    """The inputs of a model in the form of an example, and the features in them."""

    def __init__(self, model, example, features):
        self.model, self.form = model, example
        self.keys = list(example) if isinstance(example, dict) else list(range(len(example))) if isinstance(example, (list, tuple)) else [0]
        self.samples = {key: _tensor(key, value) for key, value in zip(self.keys, self.split(example))}
        self.features, self._read = {}, None
        for place, (name, given) in enumerate(features.items()):
            given = dict(given)
            if not isinstance(example, dict):
                given.setdefault("input", 0 if len(self.keys) == 1 else place)
            self.features[name] = self._described(Feature(name, given), given)
        self._link_lengths()

    def split(self, rows):
        """The tensors of rows, in the order of `keys`."""
        if isinstance(self.form, dict):
            missing = [key for key in self.keys if key not in rows]
            if missing:
                raise ValueError(f"rows: input '{missing[0]}' is missing")
            return [rows[key] for key in self.keys]
        if isinstance(self.form, (list, tuple)):
            if len(rows) != len(self.keys):
                raise ValueError(f"rows: {len(rows)} inputs, expected {len(self.keys)}")
            return list(rows)
        return [rows]

    def joined(self, tensors):
        """The form of the example with these tensors in it."""
        if isinstance(self.form, dict):
            return dict(zip(self.keys, tensors))
        return tuple(tensors) if isinstance(self.form, (list, tuple)) else tensors[0]

    # -- description --------------------------------------------------------------------------------------------------
    def _described(self, feature, given):
        """Fills in what the example and the model tell."""
        if feature.input not in self.samples:
            raise ValueError(f"{feature}: the example has no input {feature.input!r}, only {', '.join(map(repr, self.keys))}")
        sample = self.samples[feature.input]
        width = int(np.prod(sample.shape[1:])) if feature.columns is None else feature.columns[1] - feature.columns[0]
        if feature.kind is None:
            whole = not sample.is_floating_point() or given.get("vocab_size") or given.get("table")
            feature.kind = ("categorical" if width == 1 else "sequence") if whole else ("numeric" if width == 1 else "dense")
        if feature.kind not in KINDS:
            raise ValueError(f"{feature}: kind is {feature.kind!r}, expected one of {', '.join(KINDS)}")
        if feature.kind in ("categorical", "numeric", "length") and width != 1:
            raise ValueError(f"{feature}: kind '{feature.kind}' is one number per row, the example has {width}")
        feature.width = width
        _check_rules(feature)
        if feature.has_ids:
            self._vocabulary(feature, given)
        if feature.kind == "sequence":
            feature.max_len = feature.max_len or width
            if feature.max_len != width:
                raise ValueError(f"{feature}: max_len is {feature.max_len}, the example has {width} positions")
        if feature.kind == "dense":
            feature.dim = width
        return feature

    def _vocabulary(self, feature, given):
        if feature.vocab_size is None and given.get("table") is not None:
            modules = dict(self.model.named_modules())
            if given["table"] not in modules or not hasattr(modules[given["table"]], "num_embeddings"):
                raise ValueError(f"{feature}: '{given['table']}' is no nn.Embedding of the model")
            feature.vocab_size = modules[given["table"]].num_embeddings
        if feature.vocab_size is None:
            raise ValueError(f"{feature}: give vocab_size=, or table= with the path of the nn.Embedding that it is looked up in")
        if self.samples[feature.input].is_floating_point():
            check_carried(feature.name, feature.vocab_size, self.samples[feature.input].dtype)

    def _link_lengths(self):
        for feature in self.features.values():
            if feature.kind == "length":
                targets = [self.features.get(name) for name in ([feature.of] if isinstance(feature.of, str) else feature.of or [None])]
                if any(t is None or t.kind != "sequence" for t in targets) or len({t.max_len for t in targets}) != 1:
                    raise ValueError(f"{feature}: of={feature.of!r} is no sequence feature, or several of different lengths")
                feature.of = targets[0].name
                for target in targets:
                    target.length = feature

    def read_only(self, names):
        """Leaves out of the bundle what the model does not read."""
        self._read = set(names)

    def _bundled(self):
        return [f for f in self.features.values() if self._read is None or f.name in self._read]

    def declare(self, ctx, builder, encoders, stats, rules):
        """Adds the features to a Builder."""
        for f in self._bundled():
            keys = {"encoder": encoders.get(f.name), "stats": stats.get(f.name), **_suggested(f.kind, encoders.get(f.name)), **f.rules}
            if f.kind == "categorical":
                builder.categorical(f.name, f.vocab_size, **rules.of(f.name, {"pad_id": f.pad_id}, keys))
            elif f.kind == "sequence":
                if f.length is None:
                    check_padding(ctx, f.name, encoders.get(f.name), f.pad_id)
                keys = {"missing": "pad", "pad_id": f.pad_id, "pad_side": f.pad_side,
                        "keep": "first" if f.pad_side == "post" else "last", **keys}
                builder.sequence(f.name, f.vocab_size, max_len=f.max_len, **rules.of(f.name, keys, is_sequence=True))
            elif f.kind == "numeric":
                builder.numeric(f.name, **rules.of(f.name, keys))
            elif f.kind == "dense":
                builder.dense(f.name, f.dim, **rules.of(f.name, keys))

    # -- rows ---------------------------------------------------------------------------------------------------------
    def arrays(self, rows):
        """{key: array} of rows in the model's form."""
        return {key: to_numpy(value) for key, value in zip(self.keys, self.split(rows))}

    def tensors(self, arrays):
        """Tensors like the example's, in order, on the model's device."""
        import torch

        device = next((p.device for p in self.model.parameters()), None)
        return [torch.from_numpy(np.array(arrays[key])).to(dtype=self.samples[key].dtype, device=device).reshape(
            (-1, *self.samples[key].shape[1:])) for key in self.keys]

    def _of(self, feature, array):
        """A feature's part of its input, [rows, width]."""
        part = array if feature.columns is None else array[:, feature.columns[0]:feature.columns[1]]
        return part.reshape(len(array), -1)

    def columns(self, rows):
        """Rows in the model's form as columns of the bundle's features."""
        arrays, out = self.arrays(rows), {}
        for f in self._bundled():
            value = self._of(f, arrays[f.input]) if f.kind != "length" else None
            if f.has_ids:
                value = _ids(f, value)
                out[f.name] = value[:, 0].tolist() if f.kind == "categorical" else self._bags(f, value, arrays)
            elif value is not None:
                out[f.name] = value.astype(np.float32) if f.kind == "dense" else value[:, 0].astype(np.float32)
        return out

    def _bags(self, f, ids, arrays):
        if f.length is None:
            return strip_padding(ids, f.pad_id, f.pad_side)
        lengths = self._of(f.length, arrays[f.length.input])[:, 0].astype(np.int64)
        if lengths.min(initial=0) < 0 or lengths.max(initial=0) > f.max_len:
            raise ValueError(f"rows: {f.length} holds lengths outside 0..{f.max_len}")
        if f.pad_side == "pre":
            bags, rest = ([row[f.max_len - n:] for row, n in zip(ids, lengths)], [row[:f.max_len - n] for row, n in zip(ids, lengths)])
        else:
            bags, rest = [row[:n] for row, n in zip(ids, lengths)], [row[n:] for row, n in zip(ids, lengths)]
        if any((ids != f.pad_id).any() for ids in rest):
            place = "before" if f.pad_side == "pre" else "behind"
            raise ValueError(f"rows: {f} holds ids {place} its length, where only {f.pad_id} may stand")
        return [bag.tolist() for bag in bags]

    def random_rows(self, rng, n):
        """Rows in the model's form: ids over the whole vocabulary, empty and full bags, padding inside a bag."""
        arrays = {key: np.zeros((n,) + tuple(sample.shape[1:]), _dtype(sample)) for key, sample in self.samples.items()}
        bags = {}  # sequences that share a length have bags of one length
        for f in self.features.values():
            if f.kind != "length":
                values = self._random(f, rng, n)
                if f.length is not None:
                    counts = bags.setdefault(f.length.name, [len(bag) for bag in values])
                    values = [rng.integers(min(1, f.vocab_size - 1), f.vocab_size, count).tolist() for count in counts]
                self.put(arrays, f.name, values)
        return self.joined([arrays[key] for key in self.keys])

    def _random(self, f, rng, n):
        if f.kind == "categorical":
            return rng.integers(0, f.vocab_size, n)
        if f.kind != "sequence":
            return rng.standard_normal((n, f.width)).astype(np.float32)
        ids = random_bags(rng, n, f.max_len, f.vocab_size, f.pad_side)
        if f.pad_id != 0:
            ids = np.where(ids == 0, f.pad_id, np.where(ids == f.pad_id, 0, ids))
        if f.length is None and f.max_len > 2:  # a hole: an id of padding that has ids on both sides
            ids[2::5, f.max_len // 2] = f.pad_id
        return strip_padding(ids, f.pad_id, f.pad_side)

    def put(self, rows, name, values):
        """Sets a feature's part of {key: array}: ids, bags or floats."""
        f = self.features[name]
        if f.kind == "sequence":
            bags, values = values, pad_bags(values, f.max_len, f.pad_side)
            if f.pad_id:
                kept = pad_bags([[1] * len(b) for b in bags], f.max_len, f.pad_side)
                values = np.where(kept == 1, values, f.pad_id)
            if f.length is not None:
                self._of_view(f.length, rows)[:, 0] = [min(len(b), f.max_len) for b in bags]
        view = self._of_view(f, rows)
        view[...] = np.asarray(values).reshape(view.shape)

    def _of_view(self, f, rows):
        array = rows[f.input]
        part = array if f.columns is None else array[:, f.columns[0]:f.columns[1]]
        return part.reshape(len(array), -1) if part.ndim != 2 else part


def _tensor(key, value):
    import torch

    if isinstance(value, dict) or isinstance(value, (list, tuple)) and any(map(torch.is_tensor, value)):
        raise ValueError(f"example: input {key!r} is a {type(value).__name__} of tensors; give one tensor an input, and call=lambda model, x: "
                         "model(...), which puts them together as the model takes them")
    tensor = value if hasattr(value, "dim") else torch.as_tensor(np.asarray(value))
    if tensor.dim() < 1:
        raise ValueError(f"example: input {key!r} has no dim of rows")
    return tensor


def _suggested(kind, encoder):
    """The rules under which an encoder equals its library, as far as a feature of this kind has them."""
    keys = {"categorical": ("out_of_range", "oov_id", "missing", "default_id"), "sequence": ("out_of_range", "oov_id"),
            "numeric": ("missing", "default")}.get(kind, ())
    return {key: value for key, value in getattr(encoder, "suggested", {}).items() if key in keys}


def _dtype(sample):
    import torch

    return to_numpy(torch.empty(0, dtype=sample.dtype)).dtype


def _ids(f, value):
    out = value.astype(np.int64)
    if not (out == value).all():
        raise ValueError(f"rows: {f} holds ids that are not whole numbers")
    if out.size and not (0 <= out.min() and out.max() < f.vocab_size):
        raise ValueError(f"rows: {f} holds ids outside 0..{f.vocab_size - 1}")
    return out


def unknown_entry(key, place):
    """The refusal of an entry that no feature describes."""
    return UnsupportedModelError(f"input {key!r}: the model reads entry {list(place)}, which features= does not describe")
