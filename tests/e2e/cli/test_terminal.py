"""What a terminal is shown: names, cells and messages from outside never act on it; progress only where someone looks."""

import json
import os
import pty
import re
import select
import subprocess

import numpy as np
import pytest

from conftest import PROGRAM
from test_predict import HEADER, ROWS

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\x7f\r\n"  # a title, a cleared screen, C1 CSI, writing turned round, DEL
RAW = b"\x1b[31m\xff\x9b2J"  # not UTF-8


def commands_for(text):
    """Characters in `text` on which a terminal acts; line ends and tabs of our own are none."""
    return [c for c in text if (ord(c) < 0x20 and c != "\n") or 0x7F <= ord(c) < 0xA0 or 0x2028 <= ord(c) <= 0x202E]


def run_bytes(*args, stdin=None):
    done = subprocess.run([PROGRAM, *args], input=stdin, capture_output=True, timeout=120)
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")  # strict: always UTF-8
    assert "unexpected failure" not in err
    assert commands_for(out) == [] and commands_for(err) == [], (out, err)
    return done.returncode, out, err


@pytest.fixture
def evil(doctored):
    def change(m):
        m["name"] = "ctr" + EVIL
        m["provenance"] = {"framework" + EVIL: "by hand" + EVIL, "metrics": {"auc": 0.5}}
        for o in m["ops"]:
            o["module"] = "deep" + EVIL
        m["heads"][0]["activation"] = "sigmoid"

    return doctored(change)


@pytest.mark.parametrize("args", [["inspect"], ["inspect", "--graph"], ["inspect", "--json", "--graph"], ["plan"], ["plan", "--json"],
                                  ["plan", "--dot"], ["plan", "--implementations"], ["verify"], ["verify", "--json"],
                                  ["bench", "--batch", "1", "--seconds", "0.01", "--profile"],
                                  ["bench", "--batch", "1", "--seconds", "0.01", "--profile", "--json"]])
def test_names_of_a_bundle(evil, args):
    code, out, _ = run_bytes(args[0], str(evil), *args[1:])
    assert code == 0
    if "--json" in args:
        name = json.loads(out).get("name") or json.loads(out).get("model")
        assert name in (None, "ctr" + EVIL)  # exactly what the bundle says
    elif args[0] in ("inspect", "plan", "bench"):
        assert "ctr\\x1b]0;owned\\x07" in out.replace("\\\\", "\\")


def test_summary(evil, csv):
    rows = csv(ROWS.replace("\n", ",1\n").replace("vec[1],1", "vec[1],y"))
    assert "ctr\\x1b]0;" in run_bytes("predict", str(evil), str(rows), "--label", "y", "--summary")[1]
    out = run_bytes("predict", str(evil), str(rows), "--label", "y", "--summary", "--json")[1]
    assert json.loads(out)["model"] == "ctr" + EVIL


def test_errors_about_a_bundle(doctored):
    def change(m):
        m["ops"][0]["op"] = "Conv" + EVIL

    code, _, err = run_bytes("inspect", str(doctored(change)))
    assert code == 3 and "Conv\\x1b]0;owned" in err and err.count("\n") == 1


@pytest.mark.parametrize("raw", [[], ["--raw"]])
@pytest.mark.parametrize("column", range(6))
def test_cells(bundle, csv, raw, column):
    cells = [b"1", b"1", b"1", b"0", b"0", b"0"]
    cells[column] = RAW
    rows = csv(HEADER.encode() + b",".join(cells) + b"\n")
    code, _, err = run_bytes("predict", str(bundle), str(rows), *raw)
    if raw and column == 0:  # a word that the vocabulary has not is one
        assert code == 0
        return
    assert code == 2 and f"rows.csv:2:{column + 1}:" in err and "\\x1b[31m\\xff\\x9b2J" in err, err


@pytest.mark.parametrize("header", [b"job\x1b[2J,tags\n", b"job," + RAW + b"\n" + b"1,2\n", b"job," + RAW + b"," + RAW + b"\n"])
def test_headers(bundle, csv, header):
    code, _, err = run_bytes("predict", str(bundle), str(csv(header)), "--label", "y" + EVIL)
    assert code == 2 and "rows.csv:1" in err


def test_ignored_columns_and_labels(bundle, csv):
    rows = csv(ROWS.encode().replace(b"\n", b",7\n").replace(b"vec[1],7", b"vec[1]," + RAW))
    assert "'\\x1b[31m\\xff\\x9b2J' is not a feature" in run_bytes("predict", str(bundle), str(rows))[2]
    code, _, err = run_bytes(*[os.fsencode(a) for a in ("predict", bundle, rows, "--label")], RAW)
    assert code == 2 and "expected 0 or 1" in err


def test_names_of_files_and_options(bundle, tmp_path):
    folder = os.fsencode(tmp_path) + b"/" + RAW + b"\n"
    os.mkdir(folder)
    path = folder + b"/small.h5"
    with open(path, "wb") as f:
        f.write(bundle.read_bytes())
    shown = "\\x1b[31m\\xff\\x9b2J\\n/small.h5"
    assert shown in run_bytes("inspect", path)[1]
    replaced = "\x1b[31m\ufffd\ufffd2J\n/small.h5"
    assert json.loads(run_bytes("inspect", path, "--json")[1])["file"].endswith(replaced)
    assert json.loads(run_bytes("verify", path, "--json", "--sha256")[1])["bundle"].endswith(replaced)
    for args in (["inspect", path + b"x"], ["predict", path, path + b"x"], ["predict", path, path], ["verify", path, "--" + EVIL],
                 ["plan", path, "--option", b"colour=" + RAW], ["plan", path, "--option", RAW + b"=1"], ["plan", path, "--device", RAW],
                 ["predict", path, "-", "--head", RAW], ["predict", path, "-", "-o", folder]):
        code, _, err = run_bytes(*args, stdin=ROWS.encode())
        assert code != 0 and err != ""


def on_terminal(*args, with_stdout=False):
    """(exit status, what the terminal received, stdout) with stderr, and stdout if so, on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    stdout = theirs if with_stdout else subprocess.PIPE
    with subprocess.Popen([PROGRAM, *map(str, args)], stdout=stdout, stderr=theirs, stdin=subprocess.DEVNULL) as p:
        os.close(theirs)
        seen = b""
        while True:
            if not select.select([ours], [], [], 120)[0]:
                break
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            seen += part
        out = b"" if with_stdout else p.stdout.read()
    os.close(ours)
    return p.returncode, seen.decode(), out.decode()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """large(n): a bundle with n times 400 MB of table. One is kept."""
    from dpi_export import Builder
    folder = tmp_path_factory.mktemp("large")

    def make(n):
        path, rows = folder / f"large{n}.h5", n * 3_000_000
        if not path.exists():
            for other in folder.iterdir():
                other.unlink()
            b = Builder("large")
            b.categorical("id", vocab_size=rows, missing="pad", out_of_range="error")
            x = b.embed(b.input("id"), b.table("id", np.zeros((rows, 32), "f4")))
            b.head("score", b.linear(x, np.ones((1, 32), "f4"), np.zeros(1, "f4")), activation="none")
            b.write(path, check=False)
        return path
    yield make
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("args", [["predict", "{rows}"], ["verify"], ["bench", "--batch", "1", "--seconds", "0.01"]])
def test_a_long_load_shows_how_far_it_is(large, csv, args):
    rows = csv("id\n1\n2\n")
    args = [a.format(rows=rows) for a in args]
    for n in (1, 4):  # a fast machine loads the first before there is anything to show
        path = large(n)
        code, seen, out = on_terminal(args[0], path, *args[1:])
        assert code == 0
        shares = [int(x) for x in re.findall(r"\x1b\[Kloading: tables \[[#.]{32}\] +(\d+)%", seen)]
        if shares:
            break
    assert shares and shares == sorted(shares) and shares[-1] <= 100, seen
    assert seen.endswith("\r\x1b[K")  # and is gone in the end
    assert "loading" not in out
    done = subprocess.run([PROGRAM, args[0], path, *args[1:]], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stderr == ""  # nobody looks


def test_a_short_command_leaves_the_terminal_alone(bundle, csv):
    code, seen, _ = on_terminal("predict", bundle, csv(HEADER + "1,6,1,0,0,0\n"))
    assert code == 2
    assert seen.endswith("\r\n") and seen.count("\n") == 1 and "rows.csv:2:2" in seen


def test_scores_and_progress_do_not_share_a_terminal(bundle, csv, tmp_path):
    rows = csv(HEADER + "1,1,1,0,0,0\n" * 150000)
    code, seen, _ = on_terminal("predict", bundle, rows, "--batch", "16", with_stdout=True)
    assert code == 0 and "scoring" not in seen and seen.count("\n") == 150001
    for n in (150_000, 600_000, 2_400_000, 9_600_000):  # a fast machine scores the first before there is anything to show
        rows = csv(HEADER + "1,1,1,0,0,0\n" * n)
        code, seen, _ = on_terminal("predict", bundle, rows, "--batch", "16", "-o", tmp_path / "scores.csv", with_stdout=True)
        assert code == 0
        shown = re.search(r"\x1b\[Kscoring \[[#.]{32}\] +\d+%", seen)
        if shown:
            break
    assert shown and seen.endswith("\r\x1b[K")
