"""python3 -m dpi BUNDLE: checks a bundle with the engine and prints what it takes and gives."""

import argparse
import sys

from . import Error, Model, version


def main() -> int:
    """Runs the command; returns its exit code: 0 good, 1 the bundle is refused."""
    parser = argparse.ArgumentParser(prog="python3 -m dpi", description="Check a bundle's golden rows with the engine; print its features.")
    parser.add_argument("bundle")
    parser.add_argument("--device", default="auto", help="cpu, cuda, auto or ref")
    parser.add_argument("--version", action="version", version=version())
    args = parser.parse_args()
    try:
        with Model(args.bundle, device=args.device, verify="golden") as model:
            print(f"{args.bundle}: good on {model.info.device}; heads {', '.join(model.heads)}")
            for f in model.features:
                size = f"{f.dim} floats" if f.slot < 0 else f"{f.vocab_size} ids" if f.vocab_size else "keys"
                print(f"  {f.name:24s} {f.kind:12s} {size:16s} {'shared' if f.shared else 'item'}{'' if f.has_encoder else '  no encoder'}")
    except Error as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
