#!/usr/bin/env python3
"""What one user's features given once are worth: `dpi bench --users` on models with 39 categorical fields of 16 floats (Criteo_x4's
tables), 30 of them the user's. 'faster' is measured by the fastest call of each form, in turns; 'allowed' is what counting the multiply-adds of the model's
formulas allows when those of the user alone are done once per user, as the formulas are written; 'reached' is the first over the second.

  python3 tests/bench/user_once.py --program build/release/bin/dpi
  python3 tests/bench/user_once.py --models two_towers --calls 500:1 --threads 1 --json
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "weights" / "python"))
import dpi_export  # noqa: E402

FIELD_ROWS = [44, 99, 122, 41, 220, 112, 80, 69, 92, 6, 27, 37, 72, 1446, 554, 157339, 117822, 306, 18, 11882, 630, 5, 39530,
              5131, 156656, 3176, 28, 11043, 148913, 12, 4560, 2003, 5, 154564, 18, 17, 53031, 82, 40955]
DIM, USER_FIELDS, HISTORY = 16, 30, 50


class Work:
    """Multiply-adds of products, per user and per item."""

    def __init__(self):
        self.user, self.item = 0, 0

    def add(self, user=0, item=0):
        self.user, self.item = self.user + user, self.item + item

    def allowed(self, rows, users):
        """How many times fewer there are when the user's are done once."""
        return rows * (self.user + self.item) / (rows * self.item + users * self.user)


class Net:
    """A bundle under construction, and its multiply-adds by the formulas."""

    def __init__(self, name):
        self.b, self.rng, self.work = dpi_export.Builder(name), np.random.default_rng(7), Work()

    def noise(self, *dims, scale):
        return (scale * self.rng.standard_normal(dims)).astype(np.float32)

    def fields(self):
        """(ids, vectors, numbers of the user's fields); user fields stand between item fields, as columns of a data set do."""
        users = {f for f in range(39) if f * USER_FIELDS // 39 != (f + 1) * USER_FIELDS // 39}
        for f, n in enumerate(FIELD_ROWS):
            self.b.categorical(f"c{f}", vocab_size=n, space="shared" if f in users else "item")
        inputs = [self.b.input(f"c{f}") for f in range(39)]
        vectors = [self.b.embed(x, self.b.table(f"t{f}", self.noise(FIELD_ROWS[f], DIM, scale=0.1))) for f, x in enumerate(inputs)]
        return inputs, vectors, users

    def layer(self, x, out, act=True):
        n = self.b.shape(x)[-1]
        y = self.b.linear(x, self.noise(out, n, scale=(2 / n) ** 0.5), self.noise(out, scale=0.1))
        return self.b.relu(y) if act else y

    def mlp(self, x, widths):
        for w in widths:
            x = self.layer(x, w)
        return x

    def finish(self, path, logit):
        self.b.head("ctr", self.b.sigmoid(logit), logit)
        self.b.write(path)


def first_layers(net, width):
    """A layer over all 39 fields: the user's columns of it are the user's."""
    net.work.add(user=USER_FIELDS * DIM * width, item=(39 - USER_FIELDS) * DIM * width)


def layers(net, widths, side="item"):
    net.work.add(**{side: sum(a * b for a, b in zip(widths, widths[1:]))})


def dcnv2(net, cross, hidden):
    _, vectors, _ = net.fields()
    x0 = net.b.concat(vectors)
    x, n = x0, 39 * DIM
    for _ in range(cross):
        y = net.b.linear(x, net.noise(n, n, scale=n ** -0.5), net.noise(n, scale=0.01))
        x = net.b.add(net.b.mul(x0, y), x)
    first_layers(net, n + hidden[0])
    net.work.add(item=(cross - 1) * n * n)
    layers(net, hidden)
    return net.layer(net.b.concat([x, net.mlp(x0, hidden)]), 1, act=False)


def two_towers(net, user, item):
    _, vectors, users = net.fields()
    u = net.mlp(net.b.concat([v for f, v in enumerate(vectors) if f in users]), user[:-1])
    i = net.mlp(net.b.concat([v for f, v in enumerate(vectors) if f not in users]), item[:-1])
    u, i = net.layer(u, user[-1], act=False), net.layer(i, item[-1], act=False)
    layers(net, [USER_FIELDS * DIM, *user], "user")
    layers(net, [(39 - USER_FIELDS) * DIM, *item])
    net.work.add(item=item[-1])
    return net.b.reduce("sum", net.b.mul(u, i), keepdim=True)


def deepfm(net, hidden):
    inputs, vectors, _ = net.fields()
    x0 = net.b.concat(vectors)
    e = net.b.reshape(x0, [39, DIM])
    s = net.b.reduce("sum", e, axis=0)
    fm = net.b.sub(net.b.mul(s, s), net.b.reduce("sumsq", e, axis=0))
    fm = net.b.unary("affine", net.b.reduce("sum", fm, keepdim=True), a=0.5, b=0.0)
    linear = [net.b.embed(x, net.b.table(f"w{f}", net.noise(FIELD_ROWS[f], 1, scale=0.1))) for f, x in enumerate(inputs)]
    logit = net.b.add(fm, net.b.reduce("sum", net.b.concat(linear), keepdim=True))
    first_layers(net, hidden[0])
    first_layers(net, 1)  # FM: one multiply-add a number
    layers(net, [*hidden, 1])
    return net.b.add(logit, net.layer(net.mlp(x0, hidden), 1, act=False))


def din(net, attention, hidden):
    """Target attention over the user's history; its first layer splits by [t; q; t - q; t q] into parts of t, of q and of t q."""
    _, vectors, _ = net.fields()
    net.b.sequence("history", vocab_size=50000, max_len=HISTORY, space="shared", missing="pad")
    net.b.categorical("target", vocab_size=50000)
    table = net.b.table("goods", net.noise(50000, DIM, scale=0.1))
    q = net.b.embed(net.b.input("history"), table, pooling="none")
    t = net.b.embed(net.b.input("target"), table)
    wide = net.b.expand(net.b.reshape(t, [1, DIM]), [HISTORY, DIM])
    a = net.b.concat([wide, q, net.b.sub(wide, q), net.b.mul(wide, q)])
    weight = net.layer(net.mlp(a, attention), 1, act=False)
    pooled = net.b.reshape(net.b.matmul(net.b.reshape(weight, [1, HISTORY]), q), [DIM])
    x = net.b.concat([*vectors, pooled, t])
    first_layers(net, hidden[0])
    net.work.add(user=HISTORY * DIM * attention[0])
    net.work.add(item=(HISTORY + 1) * DIM * attention[0] + 2 * DIM * hidden[0] + HISTORY * DIM)
    net.work.add(item=HISTORY * sum(a * b for a, b in zip(attention, [*attention[1:], 1])))
    layers(net, [*hidden, 1])
    return net.layer(net.mlp(x, hidden), 1, act=False)


MODELS = {
    "dcnv2_1_64": lambda n: dcnv2(n, 1, [64, 32]),
    "dcnv2_3_64": lambda n: dcnv2(n, 3, [64, 32]),
    "dcnv2_3_1000": lambda n: dcnv2(n, 3, [1000, 1000, 1000]),
    "two_towers": lambda n: two_towers(n, [512, 256, 64], [128, 64]),
    "deepfm_64": lambda n: deepfm(n, [64, 32]),
    "deepfm_400": lambda n: deepfm(n, [400, 400, 400]),
    "din": lambda n: din(n, [64, 32], [200, 80]),
}


def bench(args, bundle, rows, users):
    command = [args.program, "bench", str(bundle), "--batch", str(rows), "--users", str(users), "--device", "cpu", "--threads",
               str(args.threads), "--seconds", str(args.seconds), "--json"]
    for option in args.option:
        command += ["--option", option]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)["runs"][0]


def measure(args, name, folder):
    net, path = Net(name), pathlib.Path(folder) / f"{name}.h5"
    net.finish(path, MODELS[name](net))
    for call in args.calls:
        rows, users = (int(n) for n in call.split(":"))
        run = bench(args, path, rows, users)
        allowed = net.work.allowed(rows, users)
        yield {"model": name, "rows": rows, "users": users, "us": run["shared"]["best_us"], "expanded_us": run["expanded"]["best_us"],
               "faster": run["faster"], "allowed": allowed, "reached": run["faster"] / allowed, "counted_by_plan": run["counted"]}
    path.unlink()


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/release/bin/dpi")
    p.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    p.add_argument("--calls", nargs="+", default=["500:1", "512:8"], help="rows:users of a call")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    p.add_argument("--option", action="append", default=[], help="KEY=VALUE of the engine, e.g. debug.skip=hoist")
    p.add_argument("--json", action="store_true")
    args = p.parse_args()
    lines = []
    if not args.json:
        print(f"{'model':14} {'rows':>6} {'users':>6} {'us':>10} {'expanded':>10} {'faster':>8} {'allowed':>8} {'reached':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models:
            for line in measure(args, name, folder):
                lines.append(line)
                if not args.json:
                    print(f"{name:14} {line['rows']:6} {line['users']:6} {line['us']:10.1f} {line['expanded_us']:10.1f} "
                          f"{line['faster']:8.2f} {line['allowed']:8.2f} {line['reached']:8.2f}", flush=True)
    if args.json:
        print(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
