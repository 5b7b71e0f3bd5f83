"""`dpi diff`: what it counts against plain numpy over the scores of `dpi predict`, and what it refuses."""

import json
import os

import numpy as np
import pytest
from conftest import build, golden_rows

HEADER = "session,job,tags,seen,age,vec[0],vec[1],clicked\n"


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    """The same features and heads, other weights."""
    path = tmp_path_factory.mktemp("diff") / "other.h5"
    b = build(name="other", rng_seed=8)
    b.golden(golden_rows(b))
    b.write(path)
    return path


def random_rows(seed, n, sessions):
    """Few values, so that scores are equal often."""
    rng = np.random.default_rng(seed)
    lines, label, session = [], [], []
    for _ in range(n):
        session.append(f"s{rng.integers(sessions)}")
        label.append(int(rng.integers(2)))
        lines.append(f"{session[-1]},{rng.integers(3)},{rng.integers(3)},{rng.integers(3)},{rng.integers(2)},0,{rng.integers(2)},{label[-1]}")
    return HEADER + "\n".join(lines) + "\n", np.array(label), np.array(session)


def order(before, after, session):
    """Every pair, one by one."""
    requests = first_changed = pairs = swapped = 0
    for s in np.unique(session):
        a, b = before[session == s], after[session == s]
        if len(a) < 2:
            continue
        requests += 1
        best = np.flatnonzero(a == a.max())
        first_changed += b[best].max() < b.max()
        for i in range(len(a)):
            for k in range(i):
                pairs += a[i] != a[k]
                swapped += (a[i] - a[k]) * (b[i] - b[k]) < 0
    return {"requests": requests, "first_changed": int(first_changed), "pairs": int(pairs), "swapped": int(swapped)}


@pytest.mark.parametrize("seed, n, sessions", [(0, 1, 1), (1, 2, 1), (2, 97, 1), (3, 300, 7), (4, 300, 250), (5, 301, 40)])
def test_numbers_are_those_of_numpy(dpi, bundle, other, csv, seed, n, sessions):
    from sklearn.metrics import log_loss, roc_auc_score
    text, label, session = random_rows(seed, n, sessions)
    rows = csv(text)
    names, old = dpi("predict", bundle, rows).scores()
    _, new = dpi("predict", other, rows).scores()
    j = dpi("diff", bundle, other, rows, "--request", "session", "--label", "clicked", "--head", "raw", "--json", "--batch", "64").json()
    assert j["rows"] == n and [h["name"] for h in j["heads"]] == names
    old, new = old.astype("f4").astype("f8"), new.astype("f4").astype("f8")
    for h, head in enumerate(j["heads"]):
        apart = np.abs(old[:, h] - new[:, h])
        want = [old[:, h].mean(), new[:, h].mean(), apart.mean(), np.quantile(apart, 0.5, method="inverted_cdf"),
                np.quantile(apart, 0.99, method="inverted_cdf"), apart.max()]
        got = [head["mean_old"], head["mean_new"], *(head["shift"][k] for k in ("mean", "median", "p99", "largest"))]
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=0)
        assert head["shift"]["line"] == 2 + int(apart.argmax())
        assert head["order"] == order(old[:, h], new[:, h], session)
        assert ("auc" in head) == (head["name"] == "raw")
    raw = j["heads"][1]
    if 0 < label.sum() < n:
        np.testing.assert_allclose([raw["auc"]["old"], raw["auc"]["new"]], [roc_auc_score(label, old[:, 1]), roc_auc_score(label, new[:, 1])], rtol=1e-12)
    else:
        assert raw["auc"]["old"] is None
    p = dpi("diff", bundle, other, rows, "--label", "clicked", "--json").json()["heads"][0]
    np.testing.assert_allclose([p["logloss"]["old"], p["logloss"]["new"]],
                               [log_loss(label, old[:, 0], labels=[0, 1]), log_loss(label, new[:, 0], labels=[0, 1])], rtol=1e-6)


def test_the_worst_rows_are_shown_with_their_cells(dpi, bundle, other, csv):
    text, _, _ = random_rows(6, 50, 4)
    rows = csv(text)
    names, old = dpi("predict", bundle, rows).scores()
    _, new = dpi("predict", other, rows).scores()
    j = dpi("diff", bundle, other, rows, "--worst", "3", "--label", "clicked", "--json").json()
    apart = np.abs(old - new).max(axis=1)
    assert [w["line"] - 2 for w in j["worst"]] == list(np.argsort(-apart, kind="stable")[:3])
    lines = text.splitlines()
    for w in j["worst"]:
        cells = dict(zip(lines[0].split(","), lines[w["line"] - 1].split(","), strict=True))
        assert w["cells"] == {k: v for k, v in cells.items() if v and k not in ("session", "clicked")}
        np.testing.assert_allclose([w["scores"][n]["new"] for n in names], new[w["line"] - 2], rtol=1e-6)
    out = dpi("diff", bundle, other, rows, "--request", "session").ok().out
    assert "largest shifts" in out and f"{rows}:{j['worst'][0]['line']}  click " in out and "pairs changed places" in out and "job=" in out


def test_a_bundle_beside_itself_has_no_shift(dpi, bundle, csv):
    text, _, session = random_rows(7, 40, 3)
    j = dpi("diff", bundle, bundle, csv(text), "--request", "session", "--limit", "0", "--json").json()
    assert j["worst"] == [] and j["within_limit"] is True
    for head in j["heads"]:
        assert head["shift"]["largest"] == 0 and head["order"]["swapped"] == head["order"]["first_changed"] == 0 and head["order"]["pairs"] > 0


def test_a_limit_fails_the_command_after_the_output(dpi, bundle, other, csv):
    text, _, _ = random_rows(8, 40, 3)
    ran = dpi("diff", bundle, other, csv(text), "--limit", "1e-6", "--json")
    ran.fails(4, "shifted by ", "--limit is 1e-06", "rows.csv:")
    j = json.loads(ran.out)
    assert j["within_limit"] is False
    dpi("diff", bundle, other, csv(text), "--limit", "1000").ok()


def test_heads_of_one_model_only_are_named(dpi, bundle, csv, doctored):
    text, _, _ = random_rows(9, 10, 3)

    def renamed(manifest):
        manifest["heads"][1]["name"] = "logit"

    j = dpi("diff", bundle, doctored(renamed), csv(text), "--json").json()
    assert [h["name"] for h in j["heads"]] == ["click"] and j["old"]["heads_alone"] == ["raw"] and j["new"]["heads_alone"] == ["logit"]

    def both(manifest):
        for head in manifest["heads"]:
            head["name"] += "2"

    dpi("diff", bundle, doctored(both), csv(text)).fails(1, "no head of the same name: click, raw; click2, raw2")


def test_no_rows(dpi, bundle, other, csv):
    j = dpi("diff", bundle, other, csv(HEADER), "--request", "session", "--limit", "0.1", "--json").json()
    assert j["rows"] == 0 and j["heads"][0]["mean_old"] is None and j["heads"][0]["shift"]["largest"] is None and j["within_limit"]
    assert "largest none" in dpi("diff", bundle, other, csv(HEADER)).ok().out


def test_what_is_refused(dpi, bundle, other, csv, tmp_path):
    text, _, _ = random_rows(10, 10, 3)
    dpi("diff", bundle, other, "-", stdin=text).fails(1, "-: no regular file")
    dpi("diff", bundle, other, csv(text), "--request", "visit").fails(2, "rows.csv:1:", "no column 'visit', which --request names")
    dpi("diff", bundle, other, csv(text), "--label", "clicked", "--head", "buy").fails(1, "--head 'buy'", "click, raw")
    dpi("diff", bundle, other, csv(text.replace("\ns", "\ns,9x,", 1))).fails(2, "rows.csv:2:")
    dpi("diff", bundle, tmp_path / "none.h5", csv(text)).fails(3, "none.h5")
    for limit in ("-1", "nan", "x"):
        dpi("diff", bundle, other, csv(text), "--limit", limit).fails(1, "--limit")
    os.mkfifo(tmp_path / "pipe")
    dpi("diff", bundle, other, tmp_path / "pipe").fails(1, "pipe: no regular file", "read three times")
    for flag in ("--worst", "--batch"):
        dpi("diff", bundle, other, csv(text), flag, "-1").fails(1, flag)
