#!/usr/bin/python3
"""Programs over a moved installation, linked as the page Install of the guide says in "Link it" (its own lines are run), and the samples that are
installed with it. Each scores a demo bundle as the build tree's sample does."""

import os
import pathlib
import re
import shutil
import tempfile

from installed import BUILD, DEMO, LIB, ROOT, WORK, run

# The lines of a README are for folders without a space in their name; the build's may have one.
SHORT = tempfile.TemporaryDirectory()
HERE = pathlib.Path(SHORT.name, "here")
HERE.symlink_to(WORK)
PREFIX = HERE / "moved"
WANT = run([BUILD / "bin/score_batch", DEMO])


def section():
    text = (ROOT / "packaging/doc/guide/install.md").read_text()
    return re.search(r"(?ms)^## Link it\n(.*?)^## ", text).group(1)


def block(language):
    found = re.findall(rf"(?ms)^```{language} [^\n]*\n(.*?)^```", section())
    assert len(found) == 1, f"{len(found)} blocks of {language} in the section"
    return found[0]


def folder(name):
    path = HERE / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    shutil.copy(ROOT / "samples/02_score_batch.c", path / "app.c")
    return path


def by_command_lines():
    lines = [line for line in block("sh").splitlines() if line.startswith("cc ")]
    assert len(lines) == 2 and "pkg-config" in lines[0] and "pkg-config" not in lines[1], lines
    for line in lines:
        where = folder("by_command")
        run(line, cwd=where, PREFIX=str(PREFIX), PKG_CONFIG_PATH=str(PREFIX / "lib/pkgconfig"))
        assert run([where / "app", DEMO]) == WANT, line
        loaded = re.search(r"libdpi.so.1 => (\S+)", run(["ldd", where / "app"])).group(1)
        assert os.path.realpath(loaded) == str(LIB / "libdpi.so.1.2.0"), loaded


def by_cmake():
    where = folder("by_cmake")
    head = "cmake_minimum_required(VERSION 3.13)\nproject(app C)\nadd_executable(app app.c)\n"
    (where / "CMakeLists.txt").write_text(head + block("cmake"))
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={PREFIX}"], cwd=where)
    run(["cmake", "--build", "build"], cwd=where)
    assert run([where / "build/app", DEMO]) == WANT
    refused = (where / "CMakeLists.txt").read_text().replace("dpi 1", "dpi 2")
    (where / "CMakeLists.txt").write_text(refused)
    run(["cmake", "-S", ".", "-B", "other", f"-DCMAKE_PREFIX_PATH={PREFIX}"], cwd=where, status=1)


def without_a_search_path():
    """As from a package: the loader is told where the library lies, also by a relative name."""
    where = folder("by_name")
    run("cc app.c -I$PREFIX/include -L$PREFIX/lib -ldpi -o app", cwd=where, PREFIX=str(PREFIX))
    assert run(["./app", DEMO], cwd=where, LD_LIBRARY_PATH="../moved/lib") == WANT
    run(["./app", DEMO], cwd=where, status=127)


def the_samples():
    where = HERE / "samples"
    shutil.rmtree(where, ignore_errors=True)
    shutil.copytree(PREFIX / "share/doc/dpi/samples", where)
    lines = re.findall(r"(?ms)^```sh\n(.*?)^```", (where / "README.md").read_text())
    assert len(lines) == 3  # those in Java and Go: tests/packaging/samples_test.py
    run(lines[0], cwd=where, PREFIX=str(PREFIX))
    commands = re.findall(r"`(build/[^`]+)`", (where / "README.md").read_text())
    assert len(commands) == 3, commands
    for command in commands:
        got = run(command, cwd=where)
        ours = BUILD / "bin" / command.split()[0].split("/")[1]
        if ours.exists():
            assert got == run([ours, *command.split()[1:]], cwd=where), command
        assert len(got.splitlines()) > 1, command


for test in (by_command_lines, by_cmake, without_a_search_path, the_samples):
    test()
    print("passed:", test.__name__)
