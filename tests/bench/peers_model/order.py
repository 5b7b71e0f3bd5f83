"""In which order a GPU asks its peers for rows, and what that costs: reads one by one, with a bounded number under way.

Links alone: each GPU sends one row and takes one row in a tick, first asked first sent. Orders: `same`, all GPUs ask GPU 0 first, then GPU 1 ...;
`rotated`, GPU g begins at g + 1; `mixed`, as ids come, which says nothing of owners.

  python3 tests/bench/peers_model/order.py                  # the table of README.md: a few seconds"""

import argparse
import collections

import numpy as np

ORDERS = ("same", "rotated", "mixed")


def asked(order, gpu, gpus, rows, rng):
    """The owners of one GPU's remote rows, in the order in which it asks; `rows` of each peer."""
    turn = [p for p in range(gpus) if p != gpu] if order == "same" else [(gpu + k) % gpus for k in range(1, gpus)]
    owners = np.repeat(turn, rows)
    return rng.permutation(owners) if order == "mixed" else owners


def ticks(order, gpus, rows, window, seed=0):
    """Until the last GPU has its last row. The least there is: (gpus - 1) * rows."""
    rng = np.random.default_rng(seed)
    left = [collections.deque(asked(order, g, gpus, rows, rng)) for g in range(gpus)]
    waiting = [collections.deque() for _ in range(gpus)]  # readers, by owner
    under_way = [0] * gpus
    now = 0
    while any(left) or any(under_way):
        for step in range(gpus):
            g = (now + step) % gpus
            while left[g] and under_way[g] < window:
                waiting[left[g].popleft()].append(g)
                under_way[g] += 1
        taken = set()
        for step in range(gpus):
            owner = (now + step) % gpus
            reader = next((r for r in waiting[owner] if r not in taken), None)
            if reader is None:
                continue
            waiting[owner].remove(reader)
            taken.add(reader)
            under_way[reader] -= 1
        now += 1
    return now


def main():
    p = argparse.ArgumentParser(prog="order.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--gpus", type=int, nargs="+", default=[2, 4, 8])
    p.add_argument("--rows", type=int, default=200, help="of each peer")
    p.add_argument("--window", type=int, nargs="+", default=[8, 64, 512, 100000], help="reads under way at most, of a GPU")
    a = p.parse_args()
    print("gpus,window," + ",".join(ORDERS))
    for gpus in a.gpus:
        least = (gpus - 1) * a.rows
        for window in a.window:
            print(f"{gpus},{window}," + ",".join(f"{ticks(order, gpus, a.rows, window) / least:.2f}" for order in ORDERS))


if __name__ == "__main__":
    main()
