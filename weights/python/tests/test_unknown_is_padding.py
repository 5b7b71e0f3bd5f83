"""Histories whose padding is also the id of unknown items, which is usual: with encoders, with raw cells and without, in the package and in
the engine."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from dpi_export import Bundle, UnsupportedModelError, from_torch  # noqa: E402
from dpi_export import encoders as e  # noqa: E402
from dpi_export.bundle.golden import compare_golden  # noqa: E402
from program import agrees  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:nothing shows")
nn = torch.nn
T = 4


class Net(nn.Module):
    """The mean of a history; with a length, of its first n entries."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.item, self.out = nn.Embedding(11, 4, padding_idx=0), nn.Linear(4, 1)

    def forward(self, history, n=None):
        counts = history != 0 if n is None else torch.arange(T) < n[:, None]
        counts = counts.unsqueeze(-1).float()
        return torch.sigmoid(self.out((self.item(history) * counts).sum(1) / counts.sum(1).clamp_min(1))).squeeze(-1)


#: cells, and what training made of them: 100 .. 109 are ids 1 .. 10, all else 0
CELLS = ["101|7|102", "7", "101|7", "7|101", "", "7|7|7|7", "100|7|7|7|105", "109|108|107|106"]
IDS = [[2, 0, 3, 0], [0] * T, [2, 0, 0, 0], [0, 2, 0, 0], [0] * T, [0] * T, [1, 0, 0, 0], [10, 9, 8, 7]]
COUNTS = [3, 1, 2, 2, 0, 4, 4, 4]


def exported(path, side="post", length=False, ids=IDS, raw=True, **keys):
    rows = np.array(ids)
    if side == "pre":
        rows = np.array([[0] * (T - c) + row[:c] for row, c in zip(ids, COUNTS)])
        rows[6] = [0, 0, 0, 6]
    example = {"history": torch.tensor(rows), **({"n": torch.tensor(COUNTS)} if length else {})}
    features = {"history": {"table": "item", "pad_side": side, "out_of_range": "oov", "oov_id": 0}}
    features.update({"n": {"kind": "length", "of": "history"}} if length else {})
    from_torch(Net().eval(), path, example=example, rows=example, features=features, raw={"history": CELLS} if raw else None,
               encoders={"history": e.Encoder([e.vocab_int(list(range(100, 110)))], splitter="|", **keys)})


@pytest.mark.parametrize("length", [False, True], ids=["", "with its length"])
@pytest.mark.parametrize("raw", [True, False], ids=["raw", "no raw"])
@pytest.mark.parametrize("side", ["post", "pre"])
def test_unknown_items_may_be_padding(side, raw, length, tmp_path):
    exported(tmp_path / "m.h5", side, length, raw=raw)
    with Bundle(tmp_path / "m.h5") as bundle:
        report = compare_golden(bundle)
        assert report["failures"] == [] and report["raw_rows"] >= 8
        assert "missing_element" not in bundle.features[0]["encoder"].manifest({}, "history")[0]
    agrees(tmp_path / "m.h5", "cpu")


def test_another_id_is_still_seen(tmp_path):
    wrong = [list(row) for row in IDS]
    wrong[2][0] = 5
    with pytest.raises(UnsupportedModelError, match=r"row 2: '101|7' is encoded as \[2\], but rows holds \[5\]"):
        exported(tmp_path / "m.h5", ids=wrong)
    wrong = [list(row) for row in IDS]
    wrong[0] = [2, 3, 0, 0]  # an unknown item between two known ones keeps its place
    with pytest.raises(UnsupportedModelError, match="row 0"):
        exported(tmp_path / "m.h5", ids=wrong)


def test_a_length_tells_padding_from_an_unknown_item(tmp_path):
    counted = [list(row) for row in IDS]
    try:
        COUNTS[2] = 1  # the unknown item is not counted
        with pytest.raises(UnsupportedModelError, match="row 2"):
            exported(tmp_path / "m.h5", length=True, ids=counted)
    finally:
        COUNTS[2] = 2
