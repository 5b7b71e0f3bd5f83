"""The figures of a run: ratio and ns a key by batch size, and the calls over a set on disk."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def _lines(axes, found, value, what):
    for mlp, tiered, draw in sorted({(h["mlp"], h["case"], h["draw"]) for h in found}):
        these = sorted((h["batch"], value(h)) for h in found if (h["mlp"], h["case"], h["draw"]) == (mlp, tiered, draw))
        axes.plot(*zip(*these), "o-" if tiered == "all" else "o--", label=f"MLP {mlp}, {tiered}, {draw}")
    axes.set(xscale="log", xlabel="rows of a call", ylabel=what)
    axes.grid(alpha=0.3)


def _disk(axes, found):
    for name, state, threads in sorted({(d["set"], d["page_cache"], d["threads"]) for d in found}):
        these = sorted((d["batch"], d["tiered"]["wall_p50_us"] / d["resident"]["wall_p50_us"]) for d in found
                       if (d["set"], d["page_cache"], d["threads"]) == (name, state, threads))
        axes.plot(*zip(*these), "o-" if state == "warm" else "o--", label=f"{name}, {state}, {threads} threads")
    axes.set(xscale="log", yscale="log", xlabel="rows of a call", ylabel="call over the resident one, on disk")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=6)


def draw(results, path):
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 5))
    if results.get("hits"):
        _lines(left, results["hits"], lambda h: h["ratio"][0], "call over the resident one, all hits")
        _lines(middle, results["hits"], lambda h: h["ns_per_key"], "ns a key more than resident")
        left.legend(fontsize=6)
    if results.get("disk"):
        _disk(right, results["disk"])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
