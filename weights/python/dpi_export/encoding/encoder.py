"""An encoder: its steps in order, what they give for a raw value or a sequence's cell, and its part of the manifest."""

import numbers

import numpy as np

from ..errors import BundleError, dataset_name
from ..schema import get, is_keyed, is_slot
from .cells import is_missing, number_text
from .marks import MISSING, OOV
from .rules import apply_rules
from .run_step import run_step, vocabulary
from .step_table import ARRAY_TYPES, STEPS, check_key_encoder, check_step


class Encoder:
    """Steps in order. Array-valued keys (bytes, offsets, ids, keys) hold numpy arrays. For sequences:

    splitter         splits a text that holds a whole bag; "" splits at runs of white space; None: a text is one element
    missing_element  the id of a missing element, which then keeps its place; None: it leaves the bag
    """

    def __init__(self, steps, splitter=None, missing_element=None):
        self.steps = [dict(s) for s in steps]
        self.splitter = splitter
        if missing_element is not None and (isinstance(missing_element, bool) or not isinstance(missing_element, (int, np.integer))):
            raise BundleError(f"encoder: missing_element is {missing_element!r}, expected an id")
        self.missing_element = None if missing_element is None else int(missing_element)
        self._maps = {}
        self.suggested = {}    # feature rules under which a converted encoder equals its library
        self.padding = ()      # of a converted encoder: texts that its library takes for padding
        self.transform = None  # of a converted encoder: the library's own, raw cells -> ids, padded bags or floats
        self.scaled = None     # of a fitted scaler: (its class, the type of its column or None)
        self.own = None        # its vocabulary is stored apart from equal ones, since it may grow alone (growing.py)
        for i, step in enumerate(self.steps):
            check_step(i, step)

    @classmethod
    def of(cls, value):
        """An Encoder from an Encoder, a step or a list of steps."""
        if isinstance(value, cls):
            return value
        return cls([value] if isinstance(value, dict) and "op" in value else value)

    def with_rules(self, **rules):
        """Itself, with these as `suggested`."""
        self.suggested = rules
        return self

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__

    def check(self, feature):
        """Raises unless the steps fit together and end in what `feature` needs; fixed ids must lie in its vocabulary."""
        where = f"feature '{feature['name']}': encoder"
        kind = "text"
        for i, step in enumerate(self.steps):
            reads, gives, _, _ = STEPS[step["op"]]
            if kind not in reads.split():
                raise BundleError(f"{where} step {i} ({step['op']}) reads {reads}, the step before gives {kind}")
            kind = gives
        self._check_bags(feature, where)
        want = "id" if is_slot(feature) else "number"
        if self.steps and kind != want:
            cure = ": an nn.Embedding of [categories, outputs] is what a Linear over one-hot columns does, and reads the id" if kind == "id" else ""
            raise BundleError(f"{where} ends in {'an id' if kind == 'id' else f'a {kind}'}, the feature needs {'an id' if want == 'id' else 'a number'}{cure}")
        check_key_encoder(feature, self.steps[-1] if self.steps else {"op": "to_id"}, where)
        if is_keyed(feature):
            return
        lo, hi = self.id_range()
        if want == "id" and lo is not None and (lo < 0 or hi >= feature["vocab_size"]):
            raise BundleError(f"{where} gives ids {lo} to {hi}, vocab_size is {feature['vocab_size']}")

    def _check_bags(self, feature, where):
        if self.splitter is None and self.missing_element is None:
            return
        if feature["kind"] != "sequence" or not self.steps:
            raise BundleError(f"{where}: splitter and missing_element are for sequences with steps")
        if self.splitter is not None and (not isinstance(self.splitter, str) or get(feature, "weighted")):
            raise BundleError(f"{where}: splitter is {self.splitter!r}, expected a text, and a feature that is not weighted")
        if is_keyed(feature):
            if self.missing_element is not None and not -2**63 <= self.missing_element < 2**63:
                raise BundleError(f"{where}: missing_element is {self.missing_element}, expected a key")
            return
        if self.missing_element is not None and not 0 <= self.missing_element < feature["vocab_size"]:
            raise BundleError(f"{where}: missing_element is {self.missing_element}, vocab_size is {feature['vocab_size']}")

    def entries(self):
        """{text or number: id} of the vocabulary, or None when the last step is not one."""
        if not self.steps or self.steps[-1]["op"] not in ("vocab_string", "vocab_int", "vocab_float"):
            return None
        return self._vocabulary(len(self.steps) - 1)

    def id_range(self):
        """Least and largest id the last step can give, or (None, None)."""
        step = self.steps[-1] if self.steps else {"op": "to_id"}
        if step["op"] == "hash" and "modulus" in step:
            return step["offset"], step["offset"] + step["modulus"] - 1
        if step["op"] == "buckets":
            return step.get("first_id", 0), step.get("first_id", 0) + len(step["boundaries"])
        if step["op"] in ("vocab_string", "vocab_int", "vocab_float"):
            n = len(step["offsets"]) - 1 if step["op"] == "vocab_string" else len(step["keys"])
            if n == 0:
                return None, None
            if "ids" in step:
                return int(step["ids"].min()), int(step["ids"].max())
            return step.get("first_id", 1), step.get("first_id", 1) + n - 1
        return None, None

    @property
    def names(self):
        """The value names something: no step reads how large it is."""
        return all(step["op"] != "to_float" for step in self.steps)

    def encode(self, raw):
        """One raw value (text or number) -> id, float, MISSING or OOV. Raises BundleError for what no rule covers."""
        if is_missing(raw):
            return MISSING
        if not isinstance(raw, (str, numbers.Real, np.bool_)):
            raise BundleError(f"{raw!r} is no text, number or boolean; give the text by which the data file shows it")
        if isinstance(raw, (float, np.floating)) and abs(raw) >= 2**53 and self.names:
            raise BundleError(f"{raw!r} may stand for another integer (2**53 and beyond); give an integer or text")
        value = number_text(raw) if isinstance(raw, (bool, np.bool_)) else raw
        for i, step in enumerate(self.steps):
            value = run_step(i, step, value, lambda i=i: self._vocabulary(i))
            if value is MISSING or value is OOV:
                return value
        return value

    def _vocabulary(self, i):
        if i not in self._maps:
            self._maps[i] = vocabulary(self.steps[i])
        return self._maps[i]

    def encode_for(self, feature, raw):
        """The id or float32 a feature gets for one raw value, under its missing and out_of_range rules. A missing element of a
        sequence is MISSING, which leaves the bag, unless the encoder has an id for it."""
        value = self.encode(raw) if self.steps else (MISSING if is_missing(raw) else raw)
        if value is MISSING and feature["kind"] == "sequence" and self.missing_element is not None:
            return self.missing_element
        return apply_rules(feature, value)

    def elements(self, cell):
        """The raw elements of a sequence's cell: a list gives its own, a text falls apart at the splitter."""
        if isinstance(cell, (list, tuple, np.ndarray)):
            return [e for c in cell for e in self.elements(c)]
        if self.splitter is None:
            return [cell]
        if is_missing(cell):
            return []
        text = cell if isinstance(cell, str) else number_text(cell)
        return text.split(self.splitter or None)

    def encode_bag(self, feature, cell):
        """The ids of a sequence's cell, before the cut to max_len."""
        ids = [self.encode_for(feature, element) for element in self.elements(cell)]
        return [i for i in ids if i is not MISSING]

    def manifest(self, stored, feature_name):
        """({"steps": ...} with data set paths, {path: array}). `stored`: what the model's encoders wrote so far, {} at first;
        a vocabulary that is there already is named again, not written again, but for `own` ones."""
        steps, arrays, taken = [], {}, stored.setdefault("paths", set())
        for step in self.steps:
            out = {key: value for key, value in step.items() if key not in ARRAY_TYPES}
            contents = {key: np.ascontiguousarray(step[key], dtype=kind) for key, kind in ARRAY_TYPES.items() if key in step}
            # Bytes and offsets go together: a text cut in another way is another vocabulary.
            whole = b"|".join(a.tobytes() for key, a in contents.items() if key != "ids")
            for key, array in contents.items():
                content = (key, step["op"], array.tobytes() if key == "ids" else whole, feature_name if self.own else None)
                if content not in stored:
                    base = path = f"/encoders/{dataset_name(feature_name)[:180]}.{key}"
                    n = 1
                    while path in taken:
                        n += 1
                        path = f"{base}.{n}"
                    taken.add(path)
                    stored[content], arrays[path] = path, array
                out[key] = stored[content]
            steps.append(out)
        bags = {"splitter": self.splitter, "missing_element": self.missing_element}
        return {"steps": steps, **{k: v for k, v in bags.items() if v is not None}}, arrays
