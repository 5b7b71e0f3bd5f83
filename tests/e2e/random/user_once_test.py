#!/usr/bin/env python3
"""One user's features given once, on random models whose features belong to the user or to the item as likely as not: several users a
batch with no, one or many items each, ragged histories, tiered tables. Scores of every backend, with the plan's rewrites on and off,
against numpy in float64; and the request with a shared part, the same rows each with its user's features repeated, and each user alone
must give the same bits (under determinism=strict; of ref and cpu also without).

  python3 tests/e2e/random/user_once_test.py build/release                              the models of CI
  python3 tests/e2e/random/user_once_test.py build/release --first 5000 --count 300    more
"""

import collections
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from random_models_test import Case, Engine, EngineError  # first: it makes dpi_export and engine importable

from dpi_export import Rows  # noqa: E402
from dpi_export.ops.batch import SHARED  # noqa: E402

import seeds  # noqa: E402

CI_MODELS = 24 if seeds.full() else 12
MORE = ({}, {}, {"max_rows": "3"}, {"max_rows": "16"}, {"threads": "2"}, {"threads": "2", "max_rows": "8"}, {"debug.skip": "hoist"},
        {"debug.skip": "merge"}, {"debug.skip": "tail"}, {"debug.skip": "lookup"}, {"debug.schedule": "single"}, {"debug.graphs": "off"})
#: Notes of the plan that the models must show, all together.
NOTES = ("' are multiplied once per user", "fields once per user", "is multiplied with the user's vector", "columns of every place")


def is_large(seed):
    return seed % 8 == 3


def users_of(seed):
    """Items of each user: nobody's, one, a few, many; of one model in eight more than a chunk of any form."""
    if is_large(seed):
        return [1400, 0, 1, 900]
    rng = np.random.default_rng(seed)
    return [int(n) for n in rng.choice([0, 0, 1, 1, 2, 3, 7, 20, 41], size=rng.integers(1, 7))] + [int(rng.integers(1, 9))]


def one_user(m, user):
    """The Rows of one user of a model."""
    first = sum(m.shared_counts[:user])
    items = range(first, first + m.shared_counts[user])

    def take(columns):
        return {k: [v[i] for i in ([user] if m.space_of(k) == SHARED else items)] for k, v in columns.items()}

    return Rows.from_columns(m.b, take(m.columns), weights=take(m.weights), shared_counts=[m.shared_counts[user]])


def same_bits(case, engine, options):
    """Texts of rows whose bits depend on the form of the request."""
    m, heads = case.model, len(case.heads)
    with engine.load(case.path, **options) as model:
        want = model.predict(m.rows, m.n_items, heads)
        flat = model.predict(m.flat_rows(), m.n_items, heads)
        for name, a, b in zip(("value", "logit"), want, flat):
            if a.tobytes() != b.tobytes():
                yield f"{name}: {np.sum(a != b)} scores have other bits without the shared part"
        first = 0
        for user, n in enumerate(m.shared_counts):
            for name, a, b in zip(("value", "logit"), want, model.predict(one_user(m, user), n, heads)):
                if a[first:first + n].tobytes() != b.tobytes():
                    yield f"{name}: user {user} of {n} items has other bits alone"
            first += n


def runs_of(seed, devices):
    rng = np.random.default_rng(seed)
    for device, fold, fuse in itertools.product(devices, ("on", "off"), ("on", "off")):
        options = {"device": device, "debug.fold": fold, "debug.fuse": fuse, **MORE[rng.integers(len(MORE))]}
        if device in seeds.EMULATED and fold != fuse and not seeds.full():
            continue
        if device not in ("ref", "cpu") or rng.integers(2):
            options["determinism"] = "strict"
        yield options


def notes_of(args, path):
    """Which of NOTES the plan of a bundle has."""
    done = subprocess.run([args.build / "bin" / "dpi", "plan", path, "--json"], capture_output=True, text=True, check=True)
    return {n for n in NOTES if any(n in text for text in json.loads(done.stdout)["notes"])}


def check_model(seed, args, engine, folder):
    """(texts of what is wrong, the plan's notes, number of users with no, one and more items) of a seed's model."""
    devices, wrong = args.devices.split(","), []
    if is_large(seed) and not seeds.full():  # the emulated device has its chunks made small instead
        emulated = [d for d in devices if d in seeds.EMULATED]
        wrong = checked(Case(seed, folder, users=[56, 0, 1, 36]), engine, [{**o, "max_rows": "16"} for o in runs_of(seed, emulated)])
        devices = [d for d in devices if d not in emulated]
    case = Case(seed, folder, users=users_of(seed))
    wrong += checked(case, engine, runs_of(seed, devices))
    if case.model.n_items < 100:
        wrong += [f"model {seed}: {t}" for d in devices for t in case.check_tier(engine, d)]
    notes = notes_of(args, case.path)
    case.path.unlink()
    return wrong, notes, collections.Counter(min(n, 2) for n in case.model.shared_counts)


def checked(case, engine, runs):
    """Texts of what is wrong in these runs of a model."""
    wrong = []
    for options in runs:
        try:
            texts = case.check(engine, options) + list(same_bits(case, engine, options))
        except EngineError as error:
            texts = [str(error)]
        wrong += [f"model {case.seed}, {' '.join(f'{k}={v}' for k, v in options.items())}: {t}" for t in texts]
    return wrong


def main():
    args = seeds.parser_of(__doc__, first=1, count=CI_MODELS).parse_args()
    engine, failed, met, users = Engine(seeds.library_of(args.build)), [], collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(args.first, args.first + args.count):
            wrong, notes, counts = check_model(seed, args, engine, folder)
            met.update(notes)
            users.update(counts)
            failed += [seed] if wrong else []
            if wrong:
                print("\n".join(wrong[:8]), flush=True)
    missed = [n for n in NOTES if not met[n]] + [f"a user of {n} items" for n in (0, 1, 2) if not users[n]]
    missed = missed if args.count >= CI_MODELS else []
    for text in missed:
        print(f"no model has: {text}")
    print(f"{args.count} models, {sum(users.values())} users, {dict(met)}: {len(failed)} models with wrong scores {failed[:40]}")
    sys.exit(1 if failed or missed else 0)


if __name__ == "__main__":
    main()
