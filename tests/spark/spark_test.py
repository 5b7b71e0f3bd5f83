"""samples/spark in local-cluster mode: every row scored once, with the bits of one process, also when an executor is killed under way.
Run with the Python of an environment that has the wheel, pyspark, pandas and pyarrow (tests/run.d/59_spark.sh)."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "samples/spark"))
import dpi  # noqa: E402
import score as sample  # noqa: E402
from dpi_scoring import scorer  # noqa: E402

BUNDLE, ROWS = str(ROOT / "weights/demo/adult_widedeep.h5"), str(ROOT / "weights/demo/adult_test.csv")
HEAD, KEY = "income_over_50k", "at"


@pytest.fixture(scope="module")
def spark():
    session = sample.session("local-cluster[2,1,1024]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """The demo's rows with their number, as Parquet, and their scores in this process."""
    frame = pandas.read_csv(ROWS, dtype=str, keep_default_na=False)
    frame.insert(0, KEY, np.arange(len(frame)))
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    frame.to_parquet(path)
    with dpi.Model(BUNDLE, device="cpu") as model:
        begin = time.perf_counter()
        scores = model.predict_raw(frame, extra="ignore")[:, 0]
        return str(path), scores, len(frame) / (time.perf_counter() - begin)


def check(scored, want):
    """One row each, with the very bits."""
    got = scored.toPandas().sort_values(KEY)
    assert (got[KEY].to_numpy() == np.arange(len(want))).all()
    assert np.array_equal(got[HEAD].to_numpy(np.float32).view(np.uint32), want.view(np.uint32))
    return got


def test_every_row_once_with_the_same_bits(spark, numbered, capsys):
    path, want, alone = numbered
    scored = sample.with_scores(sample.read(spark, path), BUNDLE, {}, 8)
    check(scored, want)  # the first: processes start, models are loaded
    begin = time.perf_counter()
    check(scored, want)
    with capsys.disabled():
        print(f"\n{len(want)} rows: Spark {len(want) / (time.perf_counter() - begin):.0f} rows/s, this process {alone:.0f} rows/s")


def test_one_model_per_process(spark, numbered):
    """16 tasks on two executors of one core each: as many models as processes, and no more processes than executors."""
    def told(batches):
        import dpi_scoring
        for _ in scorer(BUNDLE, device="cpu")(batches):
            pass
        yield pandas.DataFrame({"pid": [os.getpid()], "models": [len(dpi_scoring._models)],
                                "loaded": [str([id(m) for m in dpi_scoring._models.values()])]})

    seen = sample.read(spark, numbered[0]).repartition(16).mapInPandas(told, "pid long, models long, loaded string").toPandas()
    assert len(seen) == 16 and (seen["models"] == 1).all()
    assert 1 <= seen["pid"].nunique() <= 2 and (seen.groupby("pid")["loaded"].nunique() == 1).all()


def test_a_killed_executor_is_made_up_for(spark, numbered, tmp_path):
    """The first task that gets there kills its executor (the Python process's parent's parent); its rows are scored elsewhere."""
    mark = tmp_path / "killed"

    def once(batches):
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            parent = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[1])
            assert b"java" in Path(f"/proc/{parent}/cmdline").read_bytes()
            os.kill(parent, signal.SIGKILL)
            time.sleep(60)
        except FileExistsError:
            pass
        yield from scorer(BUNDLE, device="cpu")(batches)

    frame = sample.read(spark, numbered[0])
    schema = sample.with_scores(frame, BUNDLE, {}, 8).schema
    check(frame.repartition(8).mapInPandas(once, schema), numbered[1])
    assert mark.exists()


def test_the_program(tmp_path):
    run = subprocess.run([sys.executable, ROOT / "samples/spark/score.py", BUNDLE, ROWS, str(tmp_path / "out.parquet"), "--partitions", "4"],
                         capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout.startswith("16281 rows in, 16281 out, "), run.stdout + run.stderr[-2000:]
    got = pandas.read_parquet(tmp_path / "out.parquet")
    with dpi.Model(BUNDLE, device="cpu") as model:
        want = model.predict_raw(pandas.read_csv(ROWS, dtype=str, keep_default_na=False), extra="ignore")[:, 0]
    assert np.array_equal(np.sort(got[HEAD].to_numpy(np.float32)), np.sort(want))
