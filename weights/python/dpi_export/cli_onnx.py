"""The command `python -m dpi_export onnx`: an ONNX model becomes a bundle, or says what inputs and outputs it has."""

import json

import numpy as np

from .errors import BundleError
from .bundle.tables import STORED

EXAMPLES = """examples:
  python -m dpi_export onnx ctr.onnx --inputs > features.json
  python -m dpi_export onnx ctr.onnx ctr.h5
  python -m dpi_export onnx ctr.onnx ctr.h5 --features features.json --rows rows.npz --output prob --table-dtype f16
"""


def add_parser(sub, formatter):
    """Adds the command to argparse's subparsers."""
    text = "make a bundle of an ONNX model (needs python3-torch and python3-onnx)"
    p = sub.add_parser("onnx", help=text, description=text, epilog=EXAMPLES, formatter_class=formatter)
    p.add_argument("model", help="the .onnx file")
    p.add_argument("bundle", nargs="?", help="the bundle to write")
    p.add_argument("--inputs", action="store_true", help="print features for --features, as JSON, and write nothing")
    p.add_argument("--features", help="JSON file: {feature: {\"vocab_size\": 1000, ...}} as in dpi_export.from_onnx (default: every input)")
    p.add_argument("--rows", help=".npz file with an array for each input: golden rows")
    p.add_argument("--output", action="append", help="only this output of the graph (may be repeated; default: all)")
    p.add_argument("--name", help="name of the model (default: that of the file)")
    p.add_argument("--table-dtype", choices=sorted(STORED), help="element type of the tables")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=run)


def run(args):
    """Runs the command; returns its exit code."""
    from .importers.onnx_import import from_onnx

    if not args.inputs and args.bundle is None:
        raise BundleError(f"{args.model}: say which bundle to write, or --inputs")
    try:
        if args.inputs:
            print(json.dumps(_inputs(args.model, args.output), indent=1))
            return 0
        rows, features = None, None
        if args.rows:
            with np.load(args.rows, allow_pickle=False) as held:
                rows = dict(held)
        if args.features:
            with open(args.features, encoding="utf-8") as file:
                features = json.load(file)
        from_onnx(args.model, args.bundle, features=features, rows=rows, outputs=args.output, name=args.name, table_dtype=args.table_dtype)
    except ImportError as e:
        raise BundleError(f"{e}: apt-get install python3-torch python3-onnx, or pip install torch onnx") from e
    except (ValueError, OSError) as e:
        raise BundleError(str(e)) from e
    print(json.dumps({"ok": True, "path": args.bundle}) if args.json else f"{args.bundle}: a bundle of {args.model}")
    return 0


def _inputs(path, outputs):
    """features= as far as the graph tells: vocabulary sizes, and what is left to say as null."""
    from .importers.onnx_import import Source
    from .onnx.vocabulary import table_sizes

    source = Source(path, outputs)
    sizes, out = table_sizes(source.graph, source.outputs), {}
    for name, dtype, dims in source.graph.inputs:
        columns = sorted(column for place, column in sizes if place == name and column is not None)
        for column in columns:
            out[f"{name}_{column}"] = {"input": name, "columns": column, "vocab_size": sizes[name, column]}
        if not columns:
            out[name] = {"vocab_size": sizes.get((name, None))} if dtype.kind in "iu" or (name, None) in sizes else {}
            if None in dims[1:]:
                out[name]["max_len"] = None
    return out
