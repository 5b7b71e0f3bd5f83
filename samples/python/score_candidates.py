#!/usr/bin/env python3
"""One user, many candidates: the user's features are given once, the candidates' per row (ids 0, 1, 2 .. and zeros here).

  PYTHONPATH=build/release/python python3 samples/python/score_candidates.py bundle.h5 --candidates 5
"""

import argparse

import dpi


def fill(rows, model, shared, number):
    """Sets the user's features, or those of one candidate."""
    for f in model.features:
        if f.shared != shared:
            continue
        if f.slot >= 0:
            rows.set_ids(f.name, [number % max(1, f.vocab_size)])
        else:
            rows.set_floats(f.name, [0.0] * f.dim)


def score(model, candidates):
    """[candidates, heads] scores of one user's candidates."""
    with model.rows() as rows:
        if model.info.shared_slots + model.info.shared_dense_dim > 0:
            rows.begin_shared()  # the user to whom the rows begun from here on belong
            fill(rows, model, True, 0)
        for number in range(candidates):
            rows.begin()
            fill(rows, model, False, number)
        return rows.predict()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bundle")
    p.add_argument("--candidates", type=int, default=5)
    args = p.parse_args()
    with dpi.Model(args.bundle) as model:
        for number, row in enumerate(score(model, args.candidates)):
            print(f"candidate {number}: {row[0]:.6f}")


if __name__ == "__main__":
    main()
