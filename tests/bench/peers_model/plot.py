"""A picture of the cells: rows a second over what copies of all tables on every GPU would bear, by the number of GPUs."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

MARKS = {"copies": "k:", "host": "C0o-", "peers": "C1s-", "exchange": "C2^-", "exchange-best": "C3^--"}


def _panel(axes, cells, ways):
    for way in ways:
        these = sorted((c["gpus"], c["capacity"] / c["copies"]) for c in cells if c["way"] == way and c["fits"])
        if these:
            axes.plot(*zip(*these), MARKS[way], label=way, markersize=4)
    axes.set(xscale="log", xlabel="GPUs", ylim=(0, 1.1))
    gpus = sorted({c["gpus"] for c in cells})
    axes.set_xticks(gpus, [str(g) for g in gpus], fontsize=7)
    axes.minorticks_off()
    axes.grid(alpha=0.3)


def draw(cells, path):
    tables = sorted({(c["platform"], c["tables_gb"]) for c in cells}, key=lambda t: (t[0], t[1]))
    skews = sorted({c["zipf"] for c in cells})
    figure, panels = plt.subplots(len(skews), len(tables), figsize=(2.7 * len(tables), 2.4 * len(skews)), squeeze=False, sharey=True)
    for row, zipf in zip(panels, skews):
        for axes, (platform, size) in zip(row, tables):
            _panel(axes, [c for c in cells if (c["platform"], c["tables_gb"], c["zipf"]) == (platform, size, zipf)], MARKS)
            axes.set_title(f"{platform}, {size:.0f} GB, Zipf({zipf})", fontsize=8)
        row[0].set_ylabel("rows/s over copies")
    panels[0][0].legend(fontsize=6, loc="lower left")
    figure.tight_layout()
    plt.rcParams.update({"svg.hashsalt": "peers", "svg.fonttype": "none"})   # the same picture has the same bytes
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)
