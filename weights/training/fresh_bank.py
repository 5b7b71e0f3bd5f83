#!/usr/bin/env python3
"""A model that is kept fresh: Bank Marketing in its order of date, ten periods of ten tenths, and how well four ways to keep up with it score
the rows that come next.

    stale      the model of the first period, for ever
    fed        that model, trained on with each tenth once it is over, and sent as a delta
    retrained  a new bundle at the begin of each period, of all rows so far
    both       a new bundle at the begin of each period, and deltas within it

`train` writes the files of `fed`, a bundle per period and ten deltas in each, walks them through the engine (`dpi delta apply`, and an endpoint that
serves while they come into the folder that it follows), and writes figures, table and plot. `check` walks the files that are there: no torch is needed. Both end with 1 where a byte or a score is not what the trainer says.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEMO = HERE.parent / "demo/fresh"
WAIT = 60  # seconds until a version serves
sys.path.insert(0, str(HERE.parent / "python"))

from fresh import engine, stream  # noqa: E402


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, epilog="""examples:
  python3 weights/training/fresh_bank.py check
  python3 weights/training/fresh_bank.py train --out fresh                      # everything: minutes
  python3 weights/training/fresh_bank.py train --out fresh --periods 2 --seeds 1
""")
    sub = p.add_subparsers(dest="command", required=True)
    for name, text in (("train", "train, write and check everything"), ("check", "walk the files that are there through the engine")):
        one = sub.add_parser(name, help=text, description=text)
        one.add_argument("--rows", type=pathlib.Path, default=DEMO / "rows.csv.gz", help="the rows in their order of date (default: the committed ones)")
        one.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/bin/dpi", help="the program dpi (default: of the release build)")
        one.add_argument("--package", type=pathlib.Path, default=ROOT / "build/release/python", help="folder of the Python package dpi (default: likewise)")
        one.add_argument("--json", action="store_true", help="print JSON")
    sub.choices["check"].add_argument("folder", nargs="?", type=pathlib.Path, default=DEMO, help="where the files are (default: weights/demo/fresh)")
    train = sub.choices["train"]
    train.add_argument("--out", type=pathlib.Path, required=True, help="where the files go")
    train.add_argument("--data", type=pathlib.Path, help="folder with bank-full.csv.gz as UCI ships it, in place of --rows; rows.csv.gz is written from it")
    train.add_argument("--periods", type=int, default=stream.PERIODS, choices=range(2, stream.PERIODS + 1), metavar="2..10", help="so many of the ten")
    train.add_argument("--seeds", type=int, default=10, help="trainings with other seeds; the files are those of the first")
    train.add_argument("--no-engine", action="store_true", help="write files and figures only")
    return p.parse_args()


def progress(text):
    print(text, file=sys.stderr, flush=True)


class Endpoint:
    """An endpoint of the package dpi that follows a folder and serves while versions come there, as they would from a training."""

    def __init__(self, package, folder):
        sys.path.insert(0, str(package))
        self.folder = folder
        self.endpoint = importlib.import_module("dpi").Endpoint("fresh", device="cpu", max_contexts=1)
        self.endpoint.set("follow_ms", 5)
        self.endpoint.follow(folder)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.endpoint.close()

    def feed(self, path, number):
        """Puts a bundle or delta there by rename; what scores {column: texts} by it."""
        part = self.folder / "part"
        part.write_bytes(path.read_bytes())
        part.rename(self.folder / path.name)
        try:
            self.endpoint.wait(number, WAIT)
        except Exception as e:
            raise RuntimeError(f"version {number}: the endpoint does not serve it: {e}; {self.endpoint.status()}") from e
        if self.endpoint.version != number:
            raise RuntimeError(f"version {number}: the endpoint serves {self.endpoint.version}")
        return self.endpoint.predict_raw


def walk(args, folder, rows, scores=None):
    with tempfile.TemporaryDirectory() as work, tempfile.TemporaryDirectory() as followed:
        with Endpoint(args.package, pathlib.Path(followed)) as endpoint:
            return engine.Check(folder, rows, args.program, pathlib.Path(work), scores).run(endpoint.feed, progress)


def train(args):
    import common
    from fresh import files, policies, report
    common.seed_everything()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = stream.read_uci(args.data) if args.data else stream.read(args.rows)
    if args.data:
        stream.write(rows, args.out / "rows.csv.gz")
    data, scores = policies.Data(rows, args.periods), []
    with tempfile.TemporaryDirectory() as work:
        chain = files.Chain(data, args.out, pathlib.Path(work))
        for seed in range(args.seeds):
            scores.append(policies.run(data, seed, chain.publish if seed == 0 else None, progress))
    chain.write_list()
    found = {"seeds": args.seeds, **report.figures(data, {p: np.stack([s[p] for s in scores]) for p in policies.POLICIES})}
    (args.out / "result.json").write_text(json.dumps(found, indent=1) + "\n")
    report.draw(found, args.out / "auc.svg")
    return found, report.table(found), chain.scores, rows


def check_served(found, served):
    """AUC of what the engine served, against that of the trainer's first seed: a pair of rows may change places in float32."""
    for period in found["periods"]:
        offline, value = period["policies"]["fed"]["by_seed"][0], served.get(period["period"])
        pair = 1 / (period["positives"] * (period["rows"] - period["positives"]))
        if value is not None and not abs(value - offline) <= 20 * pair:
            raise RuntimeError(f"period {period['period']}: AUC of what was served is {value}, offline {offline}")


def main():
    args = arguments()
    try:
        if args.command == "train":
            found, text, scores, rows = train(args)
            folder = args.out
        else:
            folder, scores, rows, text = args.folder, None, stream.read(args.rows), ""
            found = json.loads((folder / "result.json").read_text())
        if args.command == "check" or not args.no_engine:
            found["engine"] = walk(args, folder, rows, scores)
            check_served(found, found["engine"]["served_auc_by_period"])
    except RuntimeError as e:
        print(e, file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(found, indent=1))
        return 0
    print(text)
    for period, value in found.get("engine", {}).get("served_auc_by_period", {}).items():
        print(f"period {period}: AUC of what was served {value:.6f}")
    if "engine" in found:
        print(f"{found['engine']['versions']} versions are the exporter's bit for bit; {found['engine']['calls_meanwhile']} calls while they changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
