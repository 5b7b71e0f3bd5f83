#!/usr/bin/env python3
"""FuxiCTR's FeatureProcessor as encoders: raw cells through the bundle's encoders give what the library's transform gives.

    encoding.py [--engine LIBRARY] [--devices ref,cpu]     prints a JSON list of [check, problem]; the problem is empty when it passed
"""

import argparse
import csv
import inspect
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "weights" / "python")]

import oracles  # noqa: E402, F401  (before the library)
import numpy as np  # noqa: E402
import pandas  # noqa: E402
import zoo  # noqa: E402
from dpi_export import Bundle, BundleError, Executor, Rows, UnsupportedModelError, from_fuxictr  # noqa: E402
from dpi_export.schema import get  # noqa: E402
from engine import Engine, EngineError  # noqa: E402
from fuxictr.preprocess.feature_processor import FeatureProcessor  # noqa: E402
from fuxictr.preprocess.tokenizer import Tokenizer  # noqa: E402

#: Cells as a CSV file holds them; None is an empty cell.
RAW = {
    "city": ["Oslo", "Rome", None, "Oslo", "Köln", "never seen", "__PAD__", "Rome"],
    "age": ["31", "45", "31", None, "7", "99", "-5", "31"],
    "size": ["1.0", "2.5", "40.0", None, "-0.125", "1", "2.50", "3.25"],
    "zone": ["1.0", "3.0", "2", "1e0", None, "0.0", "17", "2.0"],
    "price": ["1.5", None, "-2.25", "100.0", "0.0", "3.5", "1e-3", "7.0"],
    "load": ["0.2", "0.9", None, "0.4", "2.0", "-1.0", "0.0", "0.5"],
    "hist": ["a^b^c", None, "b", "c^^a", "zz^a^b^c^d", "^^^^^d", "a^zz^", "b^^^b^b"],
    "recent": ["a^b^c^d^a", "d", None, "b^b", "a", "c^^^", "^zz", "a^^b^c^"],
    "tags": ["red  blue", None, " red", "blue red blue red", "green\tred", "never", "red ", "blue\u00a0red"],
    "words": ["so, it", "it, NA, so", None, "NA", "it, , so", "so,it", "NA, NA, it, so", "so"],
}
COLUMNS = [
    {"name": "city", "dtype": "str", "type": "categorical"},
    {"name": "age", "dtype": "int", "type": "categorical", "fill_na": 7},
    {"name": "size", "dtype": "float", "type": "categorical"},
    {"name": "zone", "dtype": "float", "type": "categorical", "fill_na": 2.0},
    {"name": "price", "dtype": "float", "type": "numeric", "normalizer": "StandardScaler"},
    {"name": "load", "dtype": "float", "type": "numeric", "normalizer": "MinMaxScaler", "fill_na": 0.25},
    {"name": "hist", "dtype": "str", "type": "sequence", "max_len": 4, "splitter": "^"},
    {"name": "recent", "dtype": "str", "type": "sequence", "max_len": 3, "padding": "pre", "splitter": "^",
     "share_embedding": "hist"},
    {"name": "tags", "dtype": "str", "type": "sequence", "max_len": 3, "splitter": None},
    {"name": "words", "dtype": "str", "type": "sequence", "max_len": 2, "splitter": ", ", "fill_na": "NA"},
]
#: Until 2.3.9 a FeatureProcessor is fitted on columns and transforms a data frame; since then statistics and a dict.
TAKES_FRAME = "batch" not in inspect.signature(FeatureProcessor.transform).parameters


def read(column, cells):
    """Cells as FuxiCTR's CSV reader and preprocess() give them: of the column's dtype, missing ones filled."""
    kind = {"str": str, "int": int, "float": float}[column["dtype"]]
    fill = column.get("fill_na", {"str": "", "int": 0, "float": 0.0}[column["dtype"]])
    return [fill if c is None else kind(c) for c in cells]


def _fit_column(out, column, known):
    """One column as fit() does it."""
    kind = column["type"]
    if TAKES_FRAME:
        getattr(out, f"fit_{kind}_col")(column, pandas.Series(known))
    elif kind == "numeric":
        out.fit_numeric_col(column, {"min": min(known), "max": max(known), "mean": np.mean(known), "std": np.std(known),
                                     "count": len(known)})
    else:
        tokens = known if kind == "categorical" else [t for v in known for t in v.split(column["splitter"])]
        counts = {"value_counts": dict(Counter(tokens)), "max_len": column.get("max_len", 0)}
        getattr(out, f"fit_{kind}_col")(column, counts)


def _fit_on_texts(tokenizer, series):
    """Tokenizer.fit_on_texts without its processes."""
    tokens = [t for v in series for t in (v.split(tokenizer._splitter) if tokenizer.max_len else [v])]
    tokenizer.build_vocab(Counter(tokens))


def fitted_processor(columns=COLUMNS, raw=RAW, n_known=5):
    """A FeatureProcessor fitted on the first cells of each column, without the text that stands for unknown ones."""
    out = FeatureProcessor(feature_cols=columns, label_col={"name": "click", "dtype": "float"}, dataset_id="parity", data_root="")
    out.rebuild_dataset = True
    if TAKES_FRAME:
        Tokenizer.fit_on_texts = _fit_on_texts
    for column in columns:
        known = [v for v in read(column, [c for c in raw[column["name"]][:n_known] if c is not None])]
        if column["type"] == "sequence":
            known = [v.replace("zz", "a") for v in known]
        _fit_column(out, column, known)
    for name, spec in out.feature_map.features.items():
        spec.pop("oov_idx", None)
        if "share_embedding" in spec:
            spec["vocab_size"] = out.feature_map.features[spec["share_embedding"]]["vocab_size"]
            out.processor_dict[name + "::tokenizer"].vocab = out.processor_dict[spec["share_embedding"] + "::tokenizer"].vocab
    out.feature_map.num_fields = out.feature_map.get_num_fields()
    out.feature_map.default_emb_dim = 4
    return out


def transformed(processor, columns=COLUMNS, raw=RAW):
    """The library's own encoding of the cells."""
    batch = {c["name"]: read(c, raw[c["name"]]) for c in columns}
    if TAKES_FRAME:
        frame = processor.transform(pandas.DataFrame(batch))
        return {name: np.asarray(frame[name].tolist()) for name in batch}
    return {k: np.asarray(v) for k, v in processor.transform(batch).items()}


def encoded(bundle, raw=RAW):
    """The bundle's encoding of the cells as columns, before the cut of bags."""
    out = {}
    for feature in bundle.features:
        encoder, cells = feature["encoder"], raw[feature["name"]]
        take = encoder.encode_bag if feature["kind"] == "sequence" else encoder.encode_for
        out[feature["name"]] = [take(feature, "" if cell is None else cell) for cell in cells]
    return out


def _laid_out(feature, bag):
    """A bag as the positions that the library's padded rows have."""
    limit, pad = get(feature, "max_len"), get(feature, "pad_id")
    bag = bag[-limit:] if get(feature, "keep") == "last" else bag[:limit]
    space = [pad] * (limit - len(bag))
    return space + bag if get(feature, "pad_side") == "pre" else bag + space


def _difference(feature, got, want):
    if feature["kind"] == "numeric":
        error = np.abs(np.array(got, np.float64) - want).max()
        return "" if error <= 1e-6 * max(1, np.abs(want).max()) else f"differs by {error:.2e}"
    got = [_laid_out(feature, bag) for bag in got] if feature["kind"] == "sequence" else list(got)
    return "" if got == want.tolist() else f"{got} against {want.tolist()}"


def _engine_texts(engine, path, device, want):
    """Whole cells, as the file has them, through the C API."""
    cells = {name: ["" if c is None else c for c in column] for name, column in RAW.items()}
    try:
        with engine.load(path, device=device) as loaded:
            got = loaded.predict_texts(cells)
    except EngineError as e:
        return str(e)
    error = np.abs(got - want).max()
    return "" if error <= 1e-6 else f"differ by {error:.2e}"


def _program(program, path, folder, want):
    """(check, problem) of `dpi verify` and of `dpi predict --raw` on the unchanged file."""
    done = subprocess.run([program, "verify", path, "--device", "ref", "--json"], capture_output=True, text=True, check=False)
    raw = json.loads(done.stdout)["golden"]["raw"] if done.returncode == 0 else {}
    good = raw.get("failed") == 0 and raw.get("rows") == len(want)
    yield "dpi verify encodes the raw golden cells", "" if good else f"exit {done.returncode}: {done.stdout}{done.stderr}"
    rows = os.path.join(folder, "rows.csv")
    with open(rows, "w", newline="", encoding="utf-8") as f:
        out = csv.writer(f, lineterminator="\n")
        out.writerow(RAW)
        out.writerows(zip(*RAW.values()))
    done = subprocess.run([program, "predict", path, rows, "--raw", "--device", "ref"], capture_output=True, text=True, check=False)
    if done.returncode:
        yield "dpi predict --raw on the file", done.stderr
        return
    error = np.abs(np.array([float(v) for v in done.stdout.split()[1:]]) - want[:, 0]).max()
    yield "dpi predict --raw on the file", "" if error <= 1e-6 else f"differs by {error:.2e}"


def run_all(engine=None, devices=(), library=None):
    """(name, problem)"""
    processor = fitted_processor()
    model = zoo.randomise(zoo.DeepFM(processor.feature_map, hidden_units=[8]), 11)
    rows = transformed(processor)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "encoded.h5")
        stats = {"city": {"missing_rate": 0.125, "oov_rate": 0.25}, "hist": {"missing_rate": 0.125}}
        from_fuxictr(model, processor.feature_map, path, rows=rows, raw=RAW, encoders=processor, stats=stats)
        with Bundle(path) as bundle:
            columns = encoded(bundle)
            for feature in bundle.features:
                yield f"encoder of {feature['name']}", _difference(feature, columns[feature["name"]], rows[feature["name"]])
            recorded = {f["name"]: f["stats"] for f in bundle.features if "stats" in f}
            yield "training-time statistics are recorded", "" if recorded == stats else f"{recorded}"
            run, head = Executor(bundle).run(Rows.from_columns(bundle, columns)), bundle.heads[0]["name"]
            want = bundle.golden["value"]
            error = np.abs(run["value"][head] - want[:, 0]).max()
            yield "scores from raw cells", "" if error <= 1e-6 else f"differ by {error:.2e}"
            for device in devices:
                yield f"scores from raw cells, {device}", _engine_texts(engine, path, device, want)
            program = library and Path(library).resolve().parents[1] / "bin" / "dpi"
            if program and program.exists():
                yield from _program(program, path, folder, want)
        yield "raw cells of other rows are refused", _refused(
            lambda: from_fuxictr(model, processor.feature_map, path, encoders=processor, rows=rows,
                                 raw={**RAW, "zone": RAW["zone"][1:] + ["1"]}), "zone", "row 0", "'3.0'")
    yield "a transform of another meaning is refused", _other_transform(model, processor)
    processor.feature_cols[0] = {**COLUMNS[0], "preprocess": "shorten"}
    yield "preprocess in Python code is refused", _refused(
        lambda: from_fuxictr(model, processor.feature_map, "unused.h5", encoders=processor), "shorten", "city")


def _other_transform(model, processor):
    """A Tokenizer whose encode_category does something of its own: seen by running it, as no attribute tells."""
    tokenizer = processor.processor_dict["city::tokenizer"]
    plain = tokenizer.encode_category
    tokenizer.encode_category = lambda series: plain([str(v).title() for v in series] if not TAKES_FRAME else series.str.title())
    try:
        return _refused(lambda: from_fuxictr(model, processor.feature_map, "unused.h5", encoders=processor), "city", "transform")
    finally:
        del tokenizer.encode_category


def _refused(export, *names):
    try:
        export()
    except (BundleError, UnsupportedModelError) as e:
        missing = [n for n in names if n not in str(e)]
        return f"does not name {missing}: {e}" if missing else ""
    return "it was exported"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine")
    parser.add_argument("--devices", default="ref,cpu")
    options = parser.parse_args()
    engine = Engine(options.engine) if options.engine else None
    print(json.dumps(list(run_all(engine, options.devices.split(",") if engine else [], options.engine))))


if __name__ == "__main__":
    main()
