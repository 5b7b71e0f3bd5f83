"""What users give as encoders= and raw=: each slip is refused by feature with its cure, and what is taken scores as scikit-learn's transform."""

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pandas = pytest.importorskip("pandas")
preprocessing = pytest.importorskip("sklearn.preprocessing")

from dpi_export import Builder, Bundle, BundleError, Encoder, Executor, Rows, UnsupportedModelError, encoders, from_torch  # noqa: E402
from torch import nn  # noqa: E402

AGES = np.random.default_rng(0).normal(50, 12, 300)
FRAME = pandas.DataFrame({"c": ["a", "b", "c"] * 3, "d": ["x", "y", "z"] * 3})
ORDINAL = preprocessing.OrdinalEncoder().fit(FRAME)


class Number(nn.Module):
    """A score of one number, by its bucket or by a line."""

    def __init__(self, buckets=False):
        super().__init__()
        torch.manual_seed(0)
        self.line, self.table, self.buckets = nn.Linear(1, 1), nn.Embedding(6, 1), buckets

    def forward(self, age):
        """[rows, 1]"""
        return self.table(torch.bucketize(age, torch.tensor([-1.0, -0.5, 0.0, 0.5, 1.0])))[:, 0] if self.buckets else self.line(age)


class Id(nn.Module):
    """A score of one id."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 1)

    def forward(self, c):
        """[rows, 1]"""
        return self.table(c)


def number(path, encoder, rows=None, raw=None, buckets=False, **rules):
    """from_torch of a Number."""
    example = torch.randn(8, 1, generator=torch.Generator().manual_seed(1))
    rows = example if rows is None else torch.tensor(np.asarray(rows, np.float32)).reshape(-1, 1)
    from_torch(Number(buckets).eval(), path, example={"age": example}, rows={"age": rows}, features={"age": rules}, encoders={"age": encoder}, raw=raw)


def identity(path, encoder, rows=None, raw=None, **rules):
    """from_torch of an Id."""
    rows = torch.randint(0, 3, (8,)) if rows is None else torch.tensor(rows)
    from_torch(Id().eval(), path, example={"c": rows}, features={"c": {"vocab_size": 20, **rules}}, encoders={"c": encoder}, raw=raw)


@pytest.mark.parametrize("given, text", [
    ((ORDINAL, "nope"), "has no column 'nope', only 'c', 'd'"), ((preprocessing.OrdinalEncoder().fit(FRAME.to_numpy()), "c"), "give the column's number"),
    ((ORDINAL, 5), "column 5 .*from 0 to 1"), ((ORDINAL, -1), "column -1 .*from 0 to 1"), ((ORDINAL, 1.0), "column 1.0"), ((ORDINAL, True), "column True"),
    ((), "a tuple of 0"), ((ORDINAL, 0, None, 1), "a tuple of 4"), ((ORDINAL, 0, "floatt"), "'floatt' is no type of numpy")])
def test_a_column_that_is_not_there(given, text, tmp_path):
    with pytest.raises(BundleError, match=f"encoder of 'c': .*{text}"):
        identity(tmp_path / "m.h5", given)


def test_a_column_by_its_name(tmp_path):
    identity(tmp_path / "m.h5", (ORDINAL, "d"), rows=[0, 1, 2], raw={"c": ["x", "y", "z"]})


@pytest.mark.parametrize("gone", (pandas.NA, pandas.NaT, None, float("nan"), np.float32("nan"), ""))
def test_a_missing_cell(gone, tmp_path):
    """Whatever stands for it: in an encoder, in a bag, in golden rows made by hand and in raw=."""
    assert Encoder([encoders.to_float()]).encode(gone) is encoders.MISSING
    assert Encoder([encoders.vocab_string(["a"])], splitter="|").elements(gone) == []
    identity(tmp_path / "m.h5", preprocessing.LabelEncoder().fit(["a", "b"]), rows=[0, 1, 3], raw={"c": ["a", "b", gone]}, missing="default", default_id=3)
    b = Builder("m")
    b.numeric("age", missing="default", default=2.0)
    b.head("ctr", b.input("age"))
    b.golden(Rows.from_columns(b, {"age": [1.0, 2.0]}), raw={"age": [1.0, gone]})
    b.write(tmp_path / "b.h5")


@pytest.mark.parametrize("held", ([True, False, True], [True, False, None]))
def test_a_nullable_column_of_booleans(held, tmp_path):
    """It reaches scikit-learn as floats, and files show it as words."""
    column = pandas.DataFrame({"c": pandas.array(held, dtype="boolean")})
    identity(tmp_path / "m.h5", preprocessing.OrdinalEncoder().fit(column), rows=[1, 0, 1, 0, 1, 0], raw={"c": [True, False, "True", "false", "1.0", 0]})


@pytest.mark.parametrize("dtype", ("bool", "boolean"))
def test_a_scaler_of_booleans_is_refused(dtype, tmp_path):
    column = pandas.array([True, False, True], dtype=dtype)
    with pytest.raises(BundleError, match=r"'age': StandardScaler of booleans.*astype\(int\)"):
        number(tmp_path / "m.h5", preprocessing.StandardScaler().fit([[1], [0], [1]]), raw={"age": pandas.Series(column)})
    with pytest.raises(BundleError, match="'true' is not a decimal number; write booleans as 1 and 0"):
        Encoder([encoders.to_float()]).encode(True)


@pytest.mark.parametrize("kind", ("StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler"))
def test_a_scaler_of_float16_is_refused(kind, tmp_path):
    """By the type of raw=, by its own numbers, and by rows that hold no more bits."""
    column = AGES.astype(np.float16)[:, None]
    scaler = getattr(preprocessing, kind)().fit(column)
    with pytest.raises((BundleError, UnsupportedModelError), match=r"float16.*astype\('float32'\)"):
        number(tmp_path / "m.h5", scaler, rows=scaler.transform(column[:8]))
    with pytest.raises(BundleError, match=r"float16.*astype\('float32'\)"):
        number(tmp_path / "m.h5", scaler, rows=scaler.transform(column[:8]), raw={"age": column[:8, 0]})
    wide = getattr(preprocessing, kind)().fit(column.astype(np.float32))
    number(tmp_path / "m.h5", wide, rows=wide.transform(column[:8].astype(np.float32)))


def test_a_scaler_of_float32_ahead_of_buckets(tmp_path):
    """Float64 is taken, float32 refused, and what nobody tells of is warned of."""
    narrow, scaler = AGES.astype(np.float32)[:, None], preprocessing.StandardScaler()
    with pytest.raises(UnsupportedModelError, match=r"'age': the model compares or buckets what StandardScaler made of float32.*astype\('float64'\)"):
        number(tmp_path / "m.h5", scaler.fit(narrow), rows=scaler.transform(narrow[:8]), raw={"age": narrow[:8, 0]}, buckets=True)
    with pytest.warns(UserWarning, match="raw= with the column says its type"):
        number(tmp_path / "m.h5", scaler, buckets=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*says its type")
        number(tmp_path / "m.h5", scaler.fit(AGES[:, None]), rows=scaler.transform(AGES[:8, None]), raw={"age": AGES[:8]}, buckets=True)
        number(tmp_path / "n.h5", scaler.fit(narrow), rows=scaler.transform(narrow[:8]), raw={"age": narrow[:8, 0]})


@pytest.mark.parametrize("kind, cure", (("QuantileTransformer", "KBinsDiscretizer.*strategy='quantile'"), ("PowerTransformer", "log1p")))
def test_what_no_step_holds_names_what_does(kind, cure, tmp_path):
    with pytest.raises(BundleError, match=f"'age': {kind} is not supported; .*{cure}"):
        number(tmp_path / "m.h5", getattr(preprocessing, kind)().fit(AGES[:, None]))


@pytest.mark.parametrize("kind", ("numeric", "dense"))
def test_a_boolean_input_described_as_a_number(kind, tmp_path):
    """Truth values are 0 and 1, and any other number is true."""
    class Flag(nn.Module):
        """A weight of a flag."""

        def forward(self, b):
            """[rows, 1]"""
            return torch.where(b, torch.tensor(2.0), torch.tensor(-1.0))

    flags = torch.arange(8).reshape(8, 1) % 2 == 0
    from_torch(Flag().eval(), tmp_path / "m.h5", example={"b": flags}, features={"b": {"kind": kind, **({"dim": 1} if kind == "dense" else {})}}, check=True)
    with Bundle(tmp_path / "m.h5") as bundle:
        got = Executor(bundle).run(Rows.from_columns(bundle, {"b": np.array([[1.0], [0.0]])}))["value"]["ctr"]
    assert got.tolist() == [2.0, -1.0]
