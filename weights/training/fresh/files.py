"""The files of the chain: v010.h5, the model of the first ten tenths; v011.delta .. v100.delta; a bundle at the begin of each period; and
versions.json, what each of them must become."""

import hashlib
import json

import dpi_export

from . import auc, model
from .stream import TENTHS


def name(number, suffix):
    """Numbers are the tenths of rows that a version has seen."""
    return f"v{number:03d}.{suffix}"


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Chain:
    """Writes the version after each tenth: into `work` as a bundle, into `out` as a delta, and at the begin of a period as a bundle."""

    def __init__(self, data, out, work):
        self.data, self.out, self.work = data, out, work
        self.versions, self.scores = [], {}

    def publish(self, number, net, scores):
        """A version, and what the trainer says of the tenth that comes next."""
        stream, path = self.data.stream, self.work / name(number, "h5")
        rows = stream.rows(number - 1, number)
        rows = slice(rows.stop - model.GOLDEN, rows.stop)
        golden = (*self.data.encoded(TENTHS, number, rows), stream.cells(rows))
        about = f"UCI Bank Marketing (CC BY 4.0), the first {number} hundredths of its rows, without duration"
        model.write(net, self.data.features(TENTHS, number), path, golden, about)
        entry = {"number": number, "sha256": sha256(path), "bundle_bytes": path.stat().st_size}
        if number > TENTHS:
            made = dpi_export.delta(self.work / name(number - 1, "h5"), path, self.out / name(number, "delta"))
            entry.update(delta_bytes=made["bytes"], rows_set=sum(t["set"] for t in made["tables"]),
                         rows_new=sum(t["rows"] - t["rows_before"] for t in made["tables"]))
        if number % TENTHS == 0:
            (self.out / name(number, "h5")).write_bytes(path.read_bytes())
        if scores is not None:
            labels = stream.labels[stream.rows(number, number + 1)]
            entry.update(next_auc=auc.mean_with_error(auc.placements(scores, labels))[0], next_mean=float(scores.mean()))
            self.scores[number] = scores
        self.versions.append(entry)

    def write_list(self):
        (self.out / "versions.json").write_text(json.dumps(self.versions, indent=1) + "\n")
