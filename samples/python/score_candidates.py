#!/usr/bin/env python3
"""One user, many candidates: the user's features are given once, the candidates' per row (ids 0, 1, 2 .. and zeros here). Several users with
their candidates are one call.

  PYTHONPATH=build/release/python python3 samples/python/score_candidates.py bundle.h5 --candidates 5
  PYTHONPATH=build/release/python python3 samples/python/score_candidates.py bundle.h5 --candidates 5,2,9
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
    """[candidates of all users, heads] scores; candidates: how many each user has."""
    with model.rows() as rows:
        for user, count in enumerate(candidates):
            if model.info.shared_slots + model.info.shared_dense_dim > 0:
                rows.begin_shared()  # the user to whom the rows begun from here on belong
                fill(rows, model, True, user)
            for number in range(count):
                rows.begin()
                fill(rows, model, False, number)
        return rows.predict()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("bundle")
    p.add_argument("--candidates", default="5", help="of each user, a list")
    args = p.parse_args()
    candidates = [int(n) for n in args.candidates.split(",")]
    with dpi.Model(args.bundle) as model:
        scores = iter(score(model, candidates))
        for user, count in enumerate(candidates):
            for number in range(count):
                name = f"user {user}, candidate" if len(candidates) > 1 else "candidate"
                print(f"{name} {number}: {next(scores)[0]:.6f}")


if __name__ == "__main__":
    main()
