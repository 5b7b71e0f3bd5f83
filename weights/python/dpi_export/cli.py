"""The command `python -m dpi_export`: inspect, verify, convert, repack, delta, hot-keys, keygen, sign, onnx. Exit codes: 0 good, 1 a check failed, 2 wrong use."""

import argparse
import json
import sys

from . import cli_delta, cli_onnx
from .bundle.engine_check import compare_engine
from .errors import BundleError
from .bundle.golden import compare_golden
from .bundle.set_hot_keys import set_hot_keys
from .bundle.reader import Bundle
from .bundle.repack import repack
from .bundle.sign import sign
from .bundle.signing import make_keys
from .bundle.tables import STORED, TableSource
from .bundle.writer import write_bundle

_EXAMPLES = """examples:
  python -m dpi_export inspect ctr.h5
  python -m dpi_export inspect ctr.h5 --json | jq .tables
  python -m dpi_export verify ctr.h5 --require-signature <hex public key>
  python -m dpi_export convert ctr.h5 ctr_bf16.h5 --dtype bf16
  python -m dpi_export convert ctr.h5 ctr_i8.h5 --dtype i8 --table item --tolerance 5e-3
  python -m dpi_export repack edited.h5 ctr.h5
  python -m dpi_export hot-keys ctr.h5 ctr_hot.h5 --list ctr.hot
  python -m dpi_export delta monday.h5 tuesday.h5 tuesday.delta
  python -m dpi_export keygen team.key
  python -m dpi_export sign ctr.h5 --key team.key
  python -m dpi_export onnx ctr.onnx ctr.h5 --features features.json
"""


class Progress:
    """One line on standard error, only on a terminal."""

    def __init__(self):
        self._on, self._last = sys.stderr.isatty(), -1

    def __call__(self, done, total, text):
        percent = 100 * done // max(total, 1)
        if self._on and percent != self._last:
            self._last = percent
            end = "\n" if done >= total else ""
            print(f"\r{text[:50]:50s} {percent:3d} % of {total / 2**20:.1f} MiB", end=end, file=sys.stderr, flush=True)


def _summary(bundle):
    return {
        "path": bundle.path, "name": bundle.name, "version": bundle.manifest["version"], "bytes": bundle.length,
        "content_digest": f"{bundle.content_digest():016x}", "content_version": bundle.version, "signed_by": bundle.signed_by, "provenance": bundle.manifest_provenance(),
        "features": [{**f, "encoder": [s["op"] for s in f["encoder"].steps]} if f.get("encoder") else f
                     for f in bundle.features],
        "tables": bundle.tables, "key_sets": bundle.key_sets,
        "hot_keys": {name: {"keys": len(e["keys"]), "lookups": e["lookups"]} for name, e in bundle.hot_lists.items()},
        "ops": [{**op, "dims": bundle.shape(op["name"]), "space": bundle.space(op["name"])} for op in bundle.ops],
        "heads": bundle.heads,
        "golden": bundle.manifest.get("golden"),
        "parameters": sum(i["bytes"] // 4 for p, i in bundle.data_sets.items() if p.startswith("/params/")),
    }


def _inspect(args):
    with Bundle(args.bundle) as bundle:
        s = _summary(bundle)
    if args.json:
        print(json.dumps(s, indent=1))
        return 0
    print(f"{s['name']}: {s['path']}, {s['bytes']} bytes, format {s['version'][0]}.{s['version'][1]}, "
          f"digest {s['content_digest']}")
    for key in s["signed_by"]:
        print(f"  signature by key {key} (not checked here: verify --require-signature)")
    for key, value in s["provenance"].items():
        print(f"  {key}: {value if not isinstance(value, dict) else json.dumps(value)}")
    print(f"features ({len(s['features'])})")
    for f in s["features"]:
        rest = {k: v for k, v in f.items() if k not in ("name", "kind", "stats", "encoder")}
        encoder = f"  encoder {' > '.join(f['encoder'])}" if f.get("encoder") else ""
        print(f"  {f['name']:24s} {f['kind']:12s} {' '.join(f'{k}={v}' for k, v in rest.items())}{encoder}")
    print(f"tables ({len(s['tables'])}), {s['parameters']} dense parameters")
    for t in s["tables"]:
        print(f"  {t['name']:24s} {t.get('rows', 'unknown')} x {t['dim']} {t['dtype']}" + (f", keys of {t['keys']}" if "keys" in t else "")
              + (", external" if t.get("external") else ""))
    for name, e in s["hot_keys"].items():
        print(f"  {name:24s} hot-key list of {e['keys']} rows, {e['lookups']} lookups")
    print(f"ops ({len(s['ops'])})")
    for op in s["ops"]:
        dims = "ids" if op["dims"] is None else list(op["dims"])
        print(f"  {op['name']:28s} {op['op']:10s} {op['space']:8s} {str(dims):14s} {', '.join(op['in'])}")
    print(f"heads: {', '.join(h['name'] + ' = ' + h['value'] for h in s['heads'])}; golden rows: "
          f"{(s['golden'] or {}).get('rows', 0)}")
    return 0


def _verify(args):
    with Bundle(args.bundle, args.require_signature) as bundle:
        n = bundle.verify_digests(Progress())
        report = {"path": args.bundle, "extents": n, "golden": None if bundle.golden is None else compare_golden(bundle)}
    failures = (report["golden"] or {}).get("failures", [])
    if args.engine:
        report["engine"] = compare_engine(args.bundle)
        failures = failures + report["engine"]["failures"]
    if args.json:
        print(json.dumps({**report, "ok": not failures}, indent=1))
    else:
        print(f"{args.bundle}: {n} data sets undamaged")
        golden = report["golden"]
        print("no golden rows" if golden is None else f"{golden['rows']} golden rows, tolerance {golden['tolerance']:g}")
        if golden is not None:
            print(f"raw cells in {golden['raw_rows']} of them" if golden["raw_rows"] else "no raw cells: the encoders are not checked")
            if golden["raw_own"]:
                print(f"  of {', '.join(golden['raw_own'])} made by the exporter from the encoders themselves: not compared with training")
        for name, errors in (golden or {"heads": {}})["heads"].items():
            print(f"  head {name}: " + ", ".join(f"worst {k} error {v:.3g}" for k, v in errors.items()))
        if args.engine:
            print(f"golden rows with the engine {report['engine']['engine']}, raw cells of {report['engine']['raw_rows']}: " + ", ".join(
                f"head {name} worst {k} error {v:.3g}" for name, errors in report["engine"]["heads"].items() for k, v in errors.items()))
        for row, tolerance in (golden or {"loose_rows": {}})["loose_rows"].items():
            print(f"  row {row} is ill-conditioned in float32, its tolerance is {tolerance:.2g}")
        for line in failures:
            print(f"FAILED {line}")
    return 1 if failures else 0


class _Converted:
    """A Bundle with some tables in another dtype; everything else passes through."""

    def __init__(self, bundle, dtype, names, tolerance):
        self._bundle, self._names, self._dtype = bundle, names, dtype
        self.golden_spec = bundle.golden_spec
        if self.golden_spec and tolerance is not None:
            self.golden_spec = {**self.golden_spec, "tolerance": tolerance}

    def __getattr__(self, key):
        return getattr(self._bundle, key)

    @property
    def tables(self):
        return [{**t, "dtype": self._dtype} if t["name"] in self._names else t for t in self._bundle.tables]

    def table_source(self, name):
        if name not in self._names:
            return self._bundle.table_source(name)
        info = next(t for t in self._bundle.tables if t["name"] == name)
        return TableSource(name, lambda: self._bundle.decoded_blocks(name), self._dtype, info["rows"], info["dim"])


def _convert(args):
    with Bundle(args.bundle) as bundle:
        bundle.verify_digests(Progress())
        known = [t["name"] for t in bundle.tables]
        for name in args.table or []:
            if name not in known:
                raise BundleError(f"{args.bundle}: there is no table '{name}', there are {', '.join(known)}")
        stored = {t["name"] for t in bundle.tables if not t.get("external")}
        model = _Converted(bundle, args.dtype, set(args.table or known) & stored, args.tolerance)
        write_bundle(model, args.output, progress=Progress(), check=False)
    with Bundle(args.output) as out:
        report = None if out.golden is None else compare_golden(out)
        result = {"path": args.output, "bytes": out.length, "tables": out.tables, "golden": report}
    failures = (report or {}).get("failures", [])
    if args.json:
        print(json.dumps({**result, "ok": not failures}, indent=1))
    else:
        print(f"{args.output}: {result['bytes']} bytes, tables {', '.join(t['name'] + ' ' + t['dtype'] for t in result['tables'])}")
        for line in failures:
            print(f"FAILED {line}; --tolerance states what the new type may cost")
    return 1 if failures else 0


def _repack(args):
    confined = repack(args.bundle, args.output, limit=args.limit, check=not args.no_golden, sign=args.key)
    if args.json:
        print(json.dumps({"ok": True, "path": args.output, "system_calls_confined": confined}))
    else:
        print(f"{args.output}: a bundle with the contents of {args.bundle}")
    if not confined:
        print("note: this machine could not confine the reading process to a list of system calls", file=sys.stderr)
    return 0


def _hot_keys(args):
    set_hot_keys(args.bundle, args.output, args.list, sign=args.key)
    with Bundle(args.output) as out:
        lists = {name: len(e["keys"]) for name, e in out.hot_lists.items()}
    if args.json:
        print(json.dumps({"ok": True, "path": args.output, "hot_keys": lists}))
    else:
        print(f"{args.output}: " + (", ".join(f"{n} hot keys of table {name}" for name, n in lists.items()) or "without hot keys"))
    return 0


def _keygen(args):
    public = make_keys(args.bundle)
    print(json.dumps({"ok": True, "public_key": public}) if args.json else public)
    return 0


def _sign(args):
    key = sign(args.bundle, args.key)
    print(json.dumps({"ok": True, "key_id": key}) if args.json else f"{args.bundle}: signed by key {key}")
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="python -m dpi_export", description="Look at, check and convert DPI bundles.",
                                     epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = parser.add_subparsers(dest="command", required=True)
    for name, run, text in (("inspect", _inspect, "features, tables, ops and heads of a bundle"),
                            ("verify", _verify, "check every digest and recompute the golden rows"),
                            ("convert", _convert, "store tables in another element type, block by block"),
                            ("repack", _repack, "make a bundle of an HDF5 file that has the contents of one"),
                            ("hot-keys", _hot_keys, "put a list of `dpi store hot-keys` into a copy of the bundle that it is of"),
                            ("keygen", _keygen, "write a new signing key, and FILE.pub beside it; prints the public key"),
                            ("sign", _sign, "check a bundle's hashes and sign it in place")):
        p = sub.add_parser(name, help=text, description=text, epilog=_EXAMPLES,
                           formatter_class=argparse.RawDescriptionHelpFormatter)
        p.add_argument("bundle", metavar="file" if name in ("repack", "keygen") else "bundle")
        if name in ("convert", "repack", "hot-keys"):
            p.add_argument("output")
        if name == "hot-keys":
            chosen = p.add_mutually_exclusive_group(required=True)
            chosen.add_argument("--list", help="the list's file")
            chosen.add_argument("--remove", action="store_true", help="leave out the list that the bundle has")
        if name == "verify":
            p.add_argument("--engine", action="store_true", help="score the golden rows with the engine too (package dpi)")
        if name == "verify":
            p.add_argument("--require-signature", help="hex Ed25519 public keys, separated by commas: one of them must have signed")
        if name == "repack":
            p.add_argument("--limit", type=int, help="largest unpacked size in bytes (default: 64 times the file and 1 GiB)")
            p.add_argument("--no-golden", action="store_true", help="do not recompute the golden rows")
        if name in ("repack", "sign", "hot-keys"):
            p.add_argument("--key", required=name == "sign", help="sign with this key file")
        if name == "convert":
            p.add_argument("--dtype", required=True, choices=sorted(STORED))
            p.add_argument("--table", action="append", help="only this table (may be repeated; default: all)")
            p.add_argument("--tolerance", type=float, help="new tolerance of the golden rows")
        p.add_argument("--json", action="store_true", help="print JSON")
        p.set_defaults(run=run)
    cli_onnx.add_parser(sub, argparse.RawDescriptionHelpFormatter)
    cli_delta.add_parser(sub, argparse.RawDescriptionHelpFormatter, Progress)
    return parser


def main(argv=None):
    """Runs the command; returns its exit code."""
    args = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that this terminal's encoding does not have is spelled out
            stream.reconfigure(errors="backslashreplace")
    try:
        return args.run(args)
    except BundleError as error:
        print(json.dumps({"ok": False, "error": str(error)}) if args.json else f"error: {error}",
              file=sys.stdout if args.json else sys.stderr)
        return 1
