"""CSV that never ends, or holds more than a row can: refused with its place and the option that allows more."""

import pathlib
import subprocess
import sys

import pytest

from conftest import PROGRAM
from test_predict import HEADER, ROWS

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "support"))
from measured import measured  # noqa: E402

ROW = "1,1,1,0,0,0\n"


def run_bounded(args, stdin):
    """(exit status, stderr, peak of resident memory in MiB) of the program. A sanitizer keeps freed memory: it is allowed for."""
    code, err, _, peak = measured([PROGRAM, *args], stdin)
    sanitized = b"__asan_init" in open(PROGRAM, "rb").read()
    return code, err, peak / 2**20 / (6 if sanitized else 1)


def test_the_peak_is_the_programs_own():
    ours = b"x" * (512 << 20)
    code, _, peak = run_bounded(["--version"], subprocess.DEVNULL)
    assert code == 0 and 1 < peak < 100 and len(ours) > 0


@pytest.mark.parametrize("start,pour,option", [
    ("", "exec cat /dev/zero", "--max-cell-bytes"),
    (HEADER, "exec cat /dev/zero", "--max-cell-bytes"),
    (HEADER + '1,"', "exec cat /dev/zero", "--max-cell-bytes"),
    (HEADER, "exec tr '\\000' , < /dev/zero", "--max-columns"),
])
def test_a_row_without_end(bundle, start, pour, option):
    feed = subprocess.Popen(["sh", "-c", 'printf %s "$1"; ' + pour, "sh", start], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        code, err, peak = run_bounded(["predict", bundle, "-"], feed.stdout)
    finally:
        feed.stdout.close()
        feed.kill()
        feed.wait()
    assert code == 2 and option in err and "<stdin>:" in err
    assert peak < 300


def test_a_device_as_rows_and_as_bundle(dpi, bundle, csv):
    dpi("predict", bundle, "/dev/zero").fails(2, "/dev/zero:1:1:", "16777216 bytes", "--max-cell-bytes")
    dpi("inspect", "/dev/zero").fails(3, "/dev/zero")


@pytest.mark.parametrize("flags,text,place,option", [
    (["--max-cell-bytes", "6"], HEADER + ROW + "1,1|1|1|1,1,0,0,0\n", ":3:2:", "--max-cell-bytes"),
    (["--max-cell-bytes", "6"], HEADER + ROW + '1,"1|1|1|1",1,0,0,0\n', ":3:2:", "--max-cell-bytes"),
    (["--max-cell-bytes", "5"], HEADER, ":1:5:", "--max-cell-bytes"),
    (["--max-row-bytes", "26"], HEADER + "1," + "1|" * 11 + "1,1,0,0,0\n", ":2:5:", "--max-row-bytes"),
    (["--max-columns", "6"], HEADER + ROW.strip() + ",0\n", ":2:7:", "--max-columns"),
    (["--max-columns", "5"], HEADER, ":1:6:", "--max-columns"),
])
def test_limits(dpi, bundle, csv, flags, text, place, option):
    dpi("predict", bundle, csv(text), *flags).fails(2, "rows.csv" + place, option)


def test_at_the_limits_rows_are_scored(dpi, bundle, csv):
    _, want = dpi("predict", bundle, csv(ROWS)).scores()
    longest = max(len(c) for line in ROWS.splitlines() for c in line.split(","))
    widest = max(len(line) - line.count(",") for line in ROWS.splitlines())
    flags = ["--max-cell-bytes", longest, "--max-row-bytes", widest, "--max-columns", 6]
    assert (dpi("predict", bundle, csv(ROWS), *flags).scores()[1] == want).all()
    dpi("predict", bundle, csv(ROWS), "--max-row-bytes", "0").fails(1, "--max-row-bytes")


def test_long_rows_do_not_add_up(bundle, tmp_path):
    """Rows of a mebibyte: a call takes 16 of them however many --batch allows, so memory does not grow with their number."""
    path = tmp_path / "long.csv"
    row = "1," + "1|" * (1 << 19) + "1,1,0,0,0\n"
    peaks = []
    for n in (20, 80):
        path.write_text(HEADER + row * n)
        code, err, peak = run_bounded(["predict", bundle, path], subprocess.DEVNULL)
        assert code == 0, err
        peaks.append(peak)
    path.unlink()
    assert peaks[1] <= 2 * peaks[0]
