"""What a run found: figures, a table and a plot."""

import numpy as np

from . import auc
from .policies import POLICIES
from .stream import TENTHS

PAIRS = (("fed", "stale"), ("fed", "retrained"), ("both", "retrained"))
COLOURS = {"stale": "#bbbbbb", "fed": "#4477aa", "retrained": "#ee6677", "both": "#228833"}
WIDE = 1.96  # standard errors of a 95 % interval


def figures(data, scores):
    """`scores`: {policy: [seeds, rows from the second period on]} -> per period and over all, AUC, differences, log loss."""
    periods, stream = [], data.stream
    for begin in range(TENTHS, data.periods * TENTHS, TENTHS):
        rows = stream.rows(begin, begin + TENTHS)
        labels, at = stream.labels[rows], slice(rows.start - stream.starts[TENTHS], rows.stop - stream.starts[TENTHS])
        part = {p: s[:, at] for p, s in scores.items()}
        strata = [_stratum(stream, begin, t) for t in range(begin, begin + TENTHS)]
        periods.append({
            "period": begin // TENTHS + 1, "rows": len(labels), "positives": int(labels.sum()),
            "policies": {p: {**auc.summary(s, labels), "log_loss": auc.log_loss(s, labels)} for p, s in part.items()},
            "differences": {f"{a} - {b}": auc.difference(part[a], part[b], labels) for a, b in PAIRS},
            "within": {p: auc.within(strata, s) for p, s in part.items()},
            "within_differences": {f"{a} - {b}": auc.within(strata, part[a], part[b]) for a, b in PAIRS}})
    return {"periods": periods, "mean": _mean(periods)}


def _stratum(stream, begin, tenth):
    """(where a tenth's rows lie in its period, their labels)."""
    rows, first = stream.rows(tenth, tenth + 1), stream.starts[begin]
    return slice(rows.start - first, rows.stop - first), stream.labels[rows]


def _mean(periods):
    """The mean over periods; rows of different periods are different people, so their errors add up as squares."""
    def over(pick):
        found = [pick(p) for p in periods]
        return {"auc": float(np.mean([x["auc"] for x in found])), "se": float(np.sqrt(sum(x["se"] ** 2 for x in found)) / len(found))}

    return {"policies": {p: {**over(lambda x: x["policies"][p]), "log_loss": float(np.mean([x["policies"][p]["log_loss"] for x in periods]))}
                         for p in POLICIES},
            "differences": {f"{a} - {b}": over(lambda x: x["differences"][f"{a} - {b}"]) for a, b in PAIRS},
            "within": {p: over(lambda x: x["within"][p]) for p in POLICIES},
            "within_differences": {f"{a} - {b}": over(lambda x: x["within_differences"][f"{a} - {b}"]) for a, b in PAIRS}}


def table(found):
    """The figures as Markdown: AUC within tenths, over all pairs of a period in the line before the last; +- half a 95 % interval."""
    names = [f"{a} - {b}" for a, b in PAIRS]
    lines = ["| period | positives | " + " | ".join((*POLICIES, *names)) + " |", "|---|---|" + "---|" * (len(POLICIES) + len(PAIRS))]

    def line(title, positives, values, differences):
        cells = [f"{values[p]['auc']:.3f}" for p in POLICIES] + [f"{differences[n]['auc']:+.3f} ± {WIDE * differences[n]['se']:.3f}" for n in names]
        lines.append(f"| {title} | {positives} | " + " | ".join(cells) + " |")

    for p in found["periods"]:
        line(p["period"], p["positives"], p["within"], p["within_differences"])
    mean = found["mean"]
    line("mean", "", mean["within"], mean["within_differences"])
    line("mean, all pairs of a period", "", mean["policies"], mean["differences"])
    lines.append("| log loss, mean | | " + " | ".join(f"{mean['policies'][p]['log_loss']:.3f}" for p in POLICIES) + " |" + " |" * len(PAIRS))
    return "\n".join(lines)


def draw(found, path):
    """AUC, the differences and log loss over periods, as SVG; equal figures give equal bytes."""
    import matplotlib
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "fresh", "svg.fonttype": "none"})
    import matplotlib.pyplot as plt
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(15, 4.5))
    x = np.array([p["period"] for p in found["periods"]])
    for i, policy in enumerate(POLICIES):
        values = [p["policies"][policy] for p in found["periods"]]
        left.errorbar(x + 0.08 * (i - 1.5), [v["auc"] for v in values], [WIDE * v["se"] for v in values], fmt="o-", ms=3, capsize=2,
                      color=COLOURS[policy], label=policy)
        right.plot(x, [v["log_loss"] for v in values], "o-", ms=3, color=COLOURS[policy], label=policy)
    for i, (a, b) in enumerate(PAIRS):
        values = [p["differences"][f"{a} - {b}"] for p in found["periods"]]
        middle.errorbar(x + 0.1 * (i - 1), [v["auc"] for v in values], [WIDE * v["se"] for v in values], fmt="o", ms=3, capsize=2, label=f"{a} - {b}")
    middle.axhline(0, color="black", lw=0.8)
    for axes, title in ((left, "AUC of the next rows, 95 %"), (middle, "difference of AUC on the same rows, 95 %"), (right, "log loss of the next rows")):
        axes.set(xlabel="period", title=title, xticks=x)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
