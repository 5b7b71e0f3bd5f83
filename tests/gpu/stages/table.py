"""One screen at the end of a call: what ran, what failed, the targets so far. table.py RESULTS.jsonl"""

import sys

import analysis


def main(path):
    records = analysis.read(path)
    dry = any(r.get("dry") for r in records)
    print("--- " + ("DRY RUN: emulated device, times mean nothing" if dry else "results"))
    for what in ("check", "latency", "peer", "timeline", "tier"):
        counts = analysis.tally(records, what)
        if counts:
            print(f"{what:10} " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    for r in analysis.failures(records)[:12]:
        where = " ".join(str(r[k]) for k in ("model", "dataset", "dim", "hidden", "batch", "precision", "variant", "engine", "choice", "way", "part", "zipf", "callers") if k in r)
        why = str(r.get("error") or r.get("log") or r.get("why") or r.get("worst") or "").replace("\n", " ")
        print(f"FAILED {r['stage']} {r['what']} {r['status']} {where}: {why[-160:]}")
    if len(analysis.failures(records)) > 12:
        print(f"... {len(analysis.failures(records)) - 12} more failures")
    if dry:
        analysis.targets(records)
        return
    for what, cells, median, least, most in analysis.prediction_summary(records):
        print(f"predicted {what}: measured is {median:.2f} of it, {least:.2f} to {most:.2f}, over {cells} cells")
    for what, target, measured, passed in analysis.targets(records):
        print(f"{'pass' if passed else '----' if measured is None else 'MISS'} {what}: {measured or 'not measured'} (target {target})")


if __name__ == "__main__":
    main(sys.argv[1])
