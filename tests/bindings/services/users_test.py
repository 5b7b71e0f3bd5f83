"""Several users with their candidates in one request: every score has the bits of the request in which each row has its user's features, and
of each user's own request. The model attends over the user's history, which has no length in common with the other users'."""

import numpy as np
import pytest

import client
import dpi_export
from dpi_export import encoders as e

GOODS, DIM, PLACES = 12, 6, 7


def write(path):
    rng = np.random.default_rng(3)

    def noise(*dims):
        return rng.standard_normal(dims).astype(np.float32)

    b = dpi_export.Builder("attention")
    words = [e.vocab_string([f"g{i}" for i in range(1, GOODS - 1)])]
    known = {"vocab_size": GOODS, "out_of_range": "oov", "oov_id": GOODS - 1, "encoder": words}
    b.sequence("history", max_len=PLACES, missing="pad", space="shared", **known)
    b.categorical("city", missing="default", default_id=0, space="shared", **known)
    b.categorical("goods", missing="default", default_id=0, **known)
    b.numeric("price", missing="default", encoder=[e.to_float()])
    table = b.table("t", noise(GOODS, DIM))
    k, t = b.embed(b.input("history"), table, pooling="none"), b.embed(b.input("goods"), table)
    q = b.expand(b.reshape(t, [1, DIM]), [PLACES, DIM])
    hidden = b.relu(b.linear(b.concat([q, k, b.sub(q, k), b.mul(q, k)]), noise(9, 4 * DIM), noise(9)))
    weight = b.mul(b.reshape(b.linear(hidden, noise(1, 9)), [PLACES]), b.mask(b.input("history"), "length"))
    pooled = b.reshape(b.matmul(b.reshape(weight, [1, PLACES]), k), [DIM])
    city = b.embed(b.input("city"), b.table("c", noise(GOODS, 8)))
    x = b.relu(b.linear(b.concat([pooled, city, t, b.input("price")]), noise(11, 2 * DIM + 9), noise(11)))
    logit = b.linear(x, 0.05 * noise(1, 11), noise(1))
    b.head("ctr", b.sigmoid(logit), logit)
    rows = {"history": [[1, 2]], "city": [1], "goods": [3], "price": [1.0]}
    b.golden(dpi_export.Rows.from_columns(b, rows, shared_counts=[1]))
    b.write(path)


@pytest.fixture(scope="module")
def attention(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attention")
    write(folder / "attention.h5")
    yield from client.started(folder / "attention.h5", folder / "log")


def users_of(rng):
    """Histories of no to more goods than are kept, users with no, one and many rows."""
    users = []
    for n in rng.choice([0, 1, 2, 5, 40], size=rng.integers(1, 9)):
        history = [f"g{i}" for i in rng.integers(0, GOODS, rng.integers(0, PLACES + 3))]
        rows = [{"goods": f"g{rng.integers(0, GOODS)}", "price": float(np.float32(rng.normal()))} for _ in range(n)]
        users.append({"shared": {"history": history, "city": f"g{rng.integers(0, GOODS)}"}, "rows": rows})
    return users


def scores(service, request):
    """The texts stand for floats exactly."""
    status, answer = service.score(request)
    assert status == 200, answer
    return answer["scores"]


def test_users_score_as_alone_and_as_rows_of_their_own(attention):
    rng, seen = np.random.default_rng(5), set()
    for _ in range(40):
        users = users_of(rng)
        together = scores(attention, {"users": users})
        assert together == scores(attention, {"rows": [{**u["shared"], **row} for u in users for row in u["rows"]]})
        assert together == [s for u in users for s in scores(attention, u)]
        seen |= {row[0] for row in together}
    assert len(seen) > 200  # and not all the same
