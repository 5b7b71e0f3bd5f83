"""FuxiCTR's FeatureProcessor as encoders: raw cells through the bundle's encoders give what the library's transform gives."""

import os
import tempfile
from collections import Counter

import oracles  # noqa: F401  (before the library)
import numpy as np
import zoo
from dpi_export import Bundle, BundleError, Encoder, Executor, Rows, from_fuxictr
from dpi_export.encoders import MISSING
from dpi_export.schema import get
from engine import EngineError
from fuxictr.preprocess.feature_processor import FeatureProcessor

RAW = {
    "city": ["Oslo", "Rome", "", "Oslo", "Köln", "never seen", "__PAD__", "Rome"],
    "age": [31, 45, 31, None, 7, 99, -5, 31],
    "price": [1.5, None, -2.25, 100.0, 0.0, 3.5, 1e-3, 7.0],
    "load": [0.2, 0.9, None, 0.4, 2.0, -1.0, 0.0, 0.5],
    "hist": ["a^b^c", "", "b", "c^^a", "zz^a^b^c^d", "d", "a^zz", "b^b^b"],
    "recent": ["a^b^c^d^a", "d", "", "b^b", "a", "c^d", "zz", "a^b^c"],
}
COLUMNS = [
    {"name": "city", "dtype": "str", "type": "categorical"},
    {"name": "age", "dtype": "int", "type": "categorical", "fill_na": 7},
    {"name": "price", "dtype": "float", "type": "numeric", "normalizer": "StandardScaler"},
    {"name": "load", "dtype": "float", "type": "numeric", "normalizer": "MinMaxScaler", "fill_na": 0.25},
    {"name": "hist", "dtype": "str", "type": "sequence", "max_len": 4},
    {"name": "recent", "dtype": "str", "type": "sequence", "max_len": 3, "padding": "pre", "share_embedding": "hist"},
]


def fitted_processor():
    """A FeatureProcessor fitted from statistics, as its own fit() would from a file."""
    out = FeatureProcessor(feature_cols=COLUMNS, label_col={"name": "click", "dtype": "float"}, dataset_id="parity", data_root="")
    out.rebuild_dataset = True
    for column in COLUMNS:
        name, known = column["name"], [v for v in RAW[column["name"]][:5] if v not in (None, "")]
        if column["type"] == "numeric":
            out.fit_numeric_col(column, {"min": min(known), "max": max(known), "mean": np.mean(known), "std": np.std(known), "count": 5})
        elif column["type"] == "categorical":
            out.fit_categorical_col(column, {"value_counts": dict(Counter(known))})
        else:
            tokens = [t for v in known for t in v.split("^") if t and t != "zz"]
            out.fit_sequence_col(column, {"value_counts": dict(Counter(tokens)), "max_len": column["max_len"]})
    for name, spec in out.feature_map.features.items():
        spec.pop("oov_idx", None)
        if "share_embedding" in spec:
            spec["vocab_size"] = out.feature_map.features[spec["share_embedding"]]["vocab_size"]
    out.feature_map.num_fields = out.feature_map.get_num_fields()
    out.feature_map.default_emb_dim = 4
    return out


def transformed(processor):
    """The library's own encoding of RAW, after its fill of missing cells."""
    batch = {}
    for column in COLUMNS:
        fill = column.get("fill_na", {"str": "", "int": 0, "float": 0.0}[column["dtype"]])
        batch[column["name"]] = [fill if v is None else v for v in RAW[column["name"]]]
    return {k: np.asarray(v) for k, v in processor.transform(batch).items()}


def encoded(bundle):
    """The bundle's encoding of RAW as columns: bags are split, each element is encoded, then cut by the feature's rule."""
    out = {}
    for feature in bundle.features:
        encoder, cells = Encoder.of(feature["encoder"]), RAW[feature["name"]]
        if feature["kind"] == "sequence":
            # The library pads where an element is missing; a bundle leaves it out of the bag.
            ids = [[encoder.encode_for(feature, t) for t in cell.split("^")] if cell else [] for cell in cells]
            bags = [[i for i in bag if i is not MISSING] for bag in ids]
            cut = get(feature, "max_len")
            out[feature["name"]] = [b[:cut] if get(feature, "keep") == "first" else b[-cut:] for b in bags]
        else:
            text = ["" if v is None else str(v) for v in cells]
            out[feature["name"]] = [encoder.encode_for(feature, t) for t in text]
    return out


def raw_texts(columns):
    """RAW as the texts of a CSV file; bags are lists. An inner empty element is the padding id, so it has no text."""
    out = {}
    for name, cells in RAW.items():
        if next(c for c in columns if c["name"] == name)["type"] == "sequence":
            out[name] = [[t for t in cell.split("^") if t] for cell in cells]
        else:
            out[name] = ["" if v is None else str(v) for v in cells]
    return out


def run_all(engine=None, devices=()):
    """(name, problem)"""
    processor = fitted_processor()
    model = zoo.randomise(zoo.DeepFM(processor.feature_map, hidden_units=[8]), 11)
    rows = transformed(processor)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "encoded.h5")
        stats = {"city": {"missing_rate": 0.125, "oov_rate": 0.25}, "hist": {"missing_rate": 0.125}}
        from_fuxictr(model, processor.feature_map, path, rows=rows, encoders=processor, stats=stats)
        with Bundle(path) as bundle:
            columns = encoded(bundle)
            for feature in bundle.features:
                yield f"encoder of {feature['name']}", _difference(feature, columns[feature["name"]], rows[feature["name"]])
            recorded = {f["name"]: f["stats"] for f in bundle.features if "stats" in f}
            yield "training-time statistics are recorded", "" if recorded == stats else f"{recorded}"
            run, head = Executor(bundle).run(Rows.from_columns(bundle, columns)), bundle.heads[0]["name"]
            error = np.abs(run["value"][head] - bundle.golden["value"][:, 0]).max()
            yield "scores from raw cells", "" if error <= 1e-6 else f"differ by {error:.2e}"
            for device in devices:
                yield f"scores from raw cells, {device}", _engine_difference(engine, path, device, bundle.golden["value"])
    processor.feature_cols[0] = {**COLUMNS[0], "preprocess": "shorten"}
    try:
        from_fuxictr(model, processor.feature_map, "unused.h5", encoders=processor)
        yield "preprocess in Python code is refused", "it was exported"
    except BundleError as e:
        yield "preprocess in Python code is refused", "" if "shorten" in str(e) and "city" in str(e) else str(e)


def _engine_difference(engine, path, device, want):
    try:
        with engine.load(path, device=device) as loaded:
            got = loaded.predict_texts(raw_texts(COLUMNS))
    except EngineError as e:
        return str(e)
    # A padding id inside a bag has no text; its row is zero, so it changes a mean by nothing.
    error = np.abs(got - want).max()
    return "" if error <= 1e-6 else f"differ by {error:.2e}"


def _difference(feature, got, want):
    if feature["kind"] == "numeric":
        error = np.abs(np.array(got, np.float64) - want).max()
        return "" if error <= 1e-6 * max(1, np.abs(want).max()) else f"differs by {error:.2e}"
    if feature["kind"] == "sequence":
        bags = [[i for i in row if i] for row in want.tolist()]
        return "" if got == bags else f"{got} against {bags}"
    return "" if list(got) == want.tolist() else f"{list(got)} against {want.tolist()}"
