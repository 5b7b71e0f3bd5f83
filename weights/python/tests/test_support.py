"""SUPPORT.md names the models that the tests have: one that came or went without the matrix being made anew is seen here. What its cells
say is compared with the tests' results by tests/run.d/45_parity.sh."""

import pathlib
import re
import sys

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import can_models  # noqa: E402
import trace_models  # noqa: E402
import user_models  # noqa: E402

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "SUPPORT.md"


def rows(text, title):
    """{first cell: cell of the column "refused", "-" where there is none} of the table under a title."""
    part = text.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in part.splitlines() if re.match(r"^\| \w+ \|", line)]
    head = lines[0]
    return {line[0]: line[head.index("refused")] if "refused" in head else "-" for line in lines[1:]}


@pytest.mark.parametrize("title, module", [("Models as users write them", user_models), ("Models of the tracer's own tests", trace_models),
                                           ("CAN, a module of this package", can_models)])
def test_the_matrix_has_every_model(title, module):
    found = rows(SUPPORT.read_text(encoding="utf-8"), title)
    assert set(found) == set(module.MODELS), "run tests/parity/support_matrix.py"
    assert {name for name, refused in found.items() if refused != "-"} == set(module.REFUSED)


def test_a_model_more_shows():
    """The comparison can fail."""
    text = SUPPORT.read_text(encoding="utf-8").replace("| buckets |", "| barrels |")
    assert set(rows(text, "Models as users write them")) != set(user_models.MODELS)
