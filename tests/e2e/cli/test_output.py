"""Where scores go: nothing before a failure, a file only when it is complete, what is no file as it is."""

import os
import select
import signal
import stat
import subprocess
import time

import pytest

from conftest import PROGRAM
from test_predict import HEADER, ROWS

BAD = ROWS + "1,6,1,0,0,0\n"  # 6 is no id of `tags`


def left_in(folder):
    return sorted(p.name for p in folder.iterdir())


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "out"
    made.mkdir()
    return made


@pytest.mark.parametrize("flag", ["-o", "--output"])
def test_a_file_and_standard_output_hold_the_same(dpi, bundle, csv, folder, flag, monkeypatch):
    monkeypatch.chdir(folder)
    want = dpi("predict", bundle, csv(ROWS)).ok().out
    assert dpi("predict", bundle, csv(ROWS), flag, folder / "scores.csv").ok().out == ""
    assert (folder / "scores.csv").read_text() == want
    assert dpi("predict", bundle, csv(ROWS), flag, "-").ok().out == want
    assert left_in(folder) == ["scores.csv"]


def test_without_rows_there_is_a_header(dpi, bundle, csv, folder):
    dpi("predict", bundle, csv(HEADER), "-o", folder / "scores.csv").ok()
    assert (folder / "scores.csv").read_text() == "click,raw\n"


@pytest.mark.parametrize("text", [BAD, "", "job\n", HEADER + "1,1\n"])
def test_no_line_before_a_failure(dpi, bundle, csv, text):
    assert dpi("predict", bundle, csv(text)).fails(2, "rows.csv").out == ""


def test_a_failure_leaves_no_file(dpi, bundle, csv, folder):
    out = folder / "scores.csv"
    for batch in ("256", "1"):
        dpi("predict", bundle, csv(BAD), "-o", out, "--batch", batch).fails(2, "rows.csv:5:2")
        assert left_in(folder) == []
    out.write_text("of yesterday")
    dpi("predict", bundle, csv(BAD), "-o", out, "--batch", "1").fails(2, "rows.csv:5:2")
    assert out.read_text() == "of yesterday" and left_in(folder) == ["scores.csv"]


def test_mode_and_links_are_kept(dpi, bundle, csv, folder):
    want = dpi("predict", bundle, csv(ROWS)).ok().out
    out, link = folder / "scores.csv", folder / "link.csv"
    out.write_text("of yesterday")
    out.chmod(0o640)
    link.symlink_to("scores.csv")
    dpi("predict", bundle, csv(ROWS), "-o", link).ok()
    assert link.is_symlink() and out.read_text() == want
    assert stat.S_IMODE(out.stat().st_mode) == 0o640
    fresh = folder / "fresh.csv"
    dpi("predict", bundle, csv(ROWS), "-o", fresh).ok()
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o666 & ~mask


def test_a_link_to_a_file_that_is_still_to_be_made_stays_a_link(dpi, bundle, csv, folder):
    (folder / "a").mkdir()
    chain = folder / "chain.csv"
    chain.symlink_to("a/link.csv")
    (folder / "a" / "link.csv").symlink_to("../scores.csv")
    dpi("predict", bundle, csv(BAD), "-o", chain).fails(2, "rows.csv:5:2")
    assert not (folder / "scores.csv").exists() and chain.is_symlink()
    dpi("predict", bundle, csv(ROWS), "-o", chain).ok()
    assert chain.is_symlink() and (folder / "a" / "link.csv").is_symlink()
    assert (folder / "scores.csv").read_text() == dpi("predict", bundle, csv(ROWS)).ok().out
    loop = folder / "loop.csv"
    loop.symlink_to("loop.csv")
    dpi("predict", bundle, csv(ROWS), "-o", loop).fails(6, "loop.csv")
    assert loop.is_symlink()


def test_where_nothing_can_be_made_beside_it_a_file_is_written_in_place(dpi, bundle, csv, folder):
    want = dpi("predict", bundle, csv(ROWS)).ok().out
    long = folder / ("s" * 251 + ".csv")  # there is no name that is longer
    for text in (None, "of yesterday"):
        if text:
            long.write_text(text)
        dpi("predict", bundle, csv(ROWS), "-o", long).ok()
        assert long.read_text() == want and left_in(folder) == [long.name]


def test_what_is_no_file_is_written_as_it_is(dpi, bundle, csv):
    dpi("predict", bundle, csv(ROWS), "-o", "/dev/null").ok()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert dpi("predict", bundle, csv(ROWS), "-o", "/dev/stdout").ok().out.startswith("click,raw\n")


def test_what_cannot_be_written_says_so(dpi, bundle, csv, tmp_path):
    dpi("predict", bundle, csv(ROWS), "-o", tmp_path / "no" / "scores.csv").fails(6, "scores.csv", "No such file")
    dpi("predict", bundle, csv(ROWS), "-o", tmp_path).fails(6, str(tmp_path), "directory")
    dpi("predict", bundle, csv(ROWS), "-o", "/dev/full").fails(6, "/dev/full", "No space")


@pytest.mark.parametrize("command", [["predict"], ["inspect"], ["inspect", "--json"], ["plan"], ["verify"], ["devices"], ["--version"]])
def test_a_full_disk_behind_standard_output_is_noticed(bundle, csv, command):
    needs = {"predict": [bundle, csv(ROWS)], "devices": [], "--version": []}
    args = [PROGRAM, *command, *needs.get(command[0], [bundle])]
    with open("/dev/full", "w") as full:
        done = subprocess.run([str(a) for a in args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 6 and "No space" in done.stderr


def test_what_is_read_is_not_written_over(dpi, bundle, csv):
    rows, before = csv(ROWS), bundle.read_bytes()
    dpi("predict", bundle, rows, "-o", rows).fails(1, "rows.csv", "name another")
    dpi("predict", bundle, rows, "-o", bundle).fails(1, "name another")
    assert rows.read_text() == ROWS and bundle.read_bytes() == before


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ended_from_outside_nothing_stays(bundle, folder, how):
    args = [PROGRAM, "predict", str(bundle), "-", "-o", str(folder / "scores.csv"), "--batch", "1"]
    default = lambda: signal.signal(how, signal.SIG_DFL)  # noqa: E731 (under nohup it would be ignored)
    with subprocess.Popen(args, stdin=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=default) as p:
        p.stdin.write(ROWS.encode())
        p.stdin.flush()
        until = time.monotonic() + 60
        while not left_in(folder) and time.monotonic() < until:
            time.sleep(0.01)
        assert len(left_in(folder)) == 1 and "scores.csv" not in left_in(folder)
        p.send_signal(how)
        assert p.wait(60) == -how
    assert left_in(folder) == []


def test_rows_of_a_pipe_are_scored_as_they_come(bundle):
    with subprocess.Popen([PROGRAM, "predict", str(bundle), "-", "--batch", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as p:
        for byte in b"\xef\xbb\xbf" + HEADER.encode():  # a byte order mark in pieces
            p.stdin.write(bytes([byte]))
            p.stdin.flush()
        for row in ROWS.splitlines()[1:]:
            p.stdin.write(row.encode() + b"\n")
            p.stdin.flush()
            assert select.select([p.stdout], [], [], 60)[0], "no score yet"
            assert os.read(p.stdout.fileno(), 1000).endswith(b"\n")
        p.stdin.close()
        assert p.wait(60) == 0


def test_one_way_to_name_the_rows(dpi, bundle, csv):
    dpi("predict", bundle, "--input", csv(ROWS)).fails(1, "--input")
    dpi("predict", bundle).fails(1, "rows is required")
