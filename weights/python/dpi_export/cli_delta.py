"""The command `python -m dpi_export delta`."""

import json

from .delta.make import delta


def add_parser(sub, formatter, progress):
    """Adds the command."""
    text = "write the changes between two bundles as a delta (DELTA.md)"
    p = sub.add_parser("delta", help=text, description=text, formatter_class=formatter, epilog="""examples:
  python -m dpi_export delta monday.h5 tuesday.h5 tuesday.delta
  python -m dpi_export delta monday.h5 tuesday.h5 tuesday.delta --key team.key --json
""")
    p.add_argument("old", help="the bundle that the delta starts from")
    p.add_argument("new", help="the bundle that it produces")
    p.add_argument("out", help="the delta to write")
    p.add_argument("--key", help="sign with this key file")
    p.add_argument("--json", action="store_true", help="print JSON")
    p.set_defaults(run=lambda args: _run(args, progress()))


def _run(args, progress):
    made = delta(args.old, args.new, args.out, sign=args.key, progress=progress)
    if args.json:
        print(json.dumps({"ok": True, **made}, indent=1))
        return 0
    print(f"{made['path']}: {made['bytes']} bytes, from version {made['base'][:16]} to {made['new'][:16]}")
    for t in made["tables"]:
        rows = "all rows" if t["all"] else f"{t['set']} rows set, {t['gone']} gone"
        print(f"  table {t['name']}: {rows}, {t['rows']} after {t['rows_before']}")
    for path in made["arrays"]:
        print(f"  {path}")
    return 0
