#!/usr/bin/python3
"""Where plugins are looked for in a moved tree, by the program and by the library, and which folders are refused. The plugin is
the emulated device, copied to where libdpi_cuda.so would be installed."""

import json
import os
import shutil

from installed import BUILD, DEMO, PREFIX, WORK, run

TREE = WORK / "with_plugins"  # a copy: the other tests look at the installed tree meanwhile
LIB = TREE / "lib"
PLUGINS = LIB / "dpi/backends-1"
EMULATED = BUILD / "lib/dpi/backends-1/libdpi_cuda_emu.so"
SKIPPED = []
APP = r"""
#include <dpi/dpi.h>
#include <stdio.h>
#include <unistd.h>
static void say(void *user, int32_t level, const char *component, const char *message) {
  (void)user;
  (void)level;
  printf("log %s: %s\n", component, message);
}
int main(int argc, char **argv) {
  static char text[1 << 16];
  dpi_error e = DPI_ERROR_INIT;
  dpi_options *o = NULL;
  dpi_model *m = NULL;
  if (chdir("/") != 0) return 3;
  dpi_devices_json(NULL, text, sizeof text);
  puts(text);
  if (argc < 2 || dpi_env_set_log(NULL, say, NULL, DPI_LOG_WARN, &e) != DPI_OK || (o = dpi_options_create()) == NULL ||
      dpi_options_set(o, "device", "cuda_emu", &e) != DPI_OK)
    return 2;
  puts(dpi_model_load(argv[1], o, &m, &e) == DPI_OK ? "loaded" : e.message);
  dpi_model_free(m);
  dpi_options_free(o);
  return 0;
}
"""


def program(**more):
    return {d["backend"]: d for d in json.loads(run([TREE / "bin/dpi", "devices", "--json"], **more))}


def library(**more):
    """What the app prints: its devices, and the rest of the lines."""
    first, rest = run([WORK / "app", DEMO], LD_LIBRARY_PATH=str(LIB), **more).split("\n", 1)
    return {d["backend"]: d for d in json.loads(first)}, rest


def put(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder, mode=0o755)
    os.chmod(folder, 0o755)
    shutil.copy(EMULATED, folder)
    os.chmod(folder / EMULATED.name, 0o755)
    return folder


def build_app():
    shutil.rmtree(TREE, ignore_errors=True)
    shutil.copytree(PREFIX, TREE, symlinks=True)
    (WORK / "app.c").write_text(APP)
    run('cc -Wall -Werror app.c -I"$PREFIX/include" -L"$PREFIX/lib" -ldpi -o app', PREFIX=str(TREE))


def searched(entry):
    return [(f["folder"], f["origin"]) for f in entry["searched"]]


def nothing_there():
    for devices in (program(), library()[0]):
        assert "cuda_emu" not in devices and devices["cpu"]["usable"]
        assert searched(devices["cuda"]) == [(str(PLUGINS), "installation")], devices["cuda"]
        if not PLUGINS.exists():
            assert devices["cuda"]["searched"][0]["problem"] == "No such file or directory", devices["cuda"]


def found_in_the_tree():
    put(PLUGINS)
    devices, rest = library()
    for found in (program(), devices):
        assert found["cuda_emu"]["usable"] and found["cuda_emu"]["path"] == str(PLUGINS / EMULATED.name), found
    assert rest == "loaded\n", rest
    shown = run([TREE / "bin/dpi", "devices"])
    assert f"plugins are looked for in\n  {PLUGINS} (installation)\n" in shown, shown
    # Called through a link, and from another folder: where the file lies counts.
    (WORK / "linked").unlink(missing_ok=True)
    (WORK / "linked").symlink_to(TREE / "bin/dpi")
    assert str(PLUGINS) in run(["./linked", "devices"])
    run("cd / && PATH=\"$PREFIX/bin:$PATH\" dpi devices | grep -q '^cuda_emu *usable'", PREFIX=str(TREE))
    # The library by a relative name, from a folder that the program leaves before it asks.
    assert run([WORK / "app", DEMO], cwd=TREE, LD_LIBRARY_PATH="lib").endswith("loaded\n")


def named_folder_comes_first():
    own = put(WORK / "own")
    devices = program(DPI_BACKEND_DIR=str(own))
    assert devices["cuda_emu"]["path"] == str(own / EMULATED.name)
    assert searched(devices["cuda"]) == [(str(own), "DPI_BACKEND_DIR"), (str(PLUGINS), "installation")]
    first = run([TREE / "bin/dpi", "devices", "--json", "--backend-dir", own], DPI_BACKEND_DIR=str(PLUGINS))
    entry = {d["backend"]: d for d in json.loads(first)}["cuda_emu"]
    assert entry["path"] == str(own / EMULATED.name) and entry["searched"][0]["origin"] == "option backend_dir"


def refused(folder, reason, advice):
    """By program and library; nothing of the folder is opened, and the log says what to do."""
    devices, rest = library(DPI_BACKEND_DIR=str(folder))
    for found in (program(DPI_BACKEND_DIR=str(folder)), devices):
        entry = found["cuda_emu"]
        assert entry["path"] == str(PLUGINS / EMULATED.name), entry
        first = found["cuda"]["searched"][0]
        assert first["folder"] == str(folder) and reason in first["problem"] and advice in first["advice"], first
        assert reason in found["cuda"]["reason"], found["cuda"]
    assert f"log plugin: {folder} is not used: it {reason}" in rest and advice in rest and rest.endswith("loaded\n"), rest
    shown = run([TREE / "bin/dpi", "devices"], DPI_BACKEND_DIR=str(folder))
    assert f"  {folder} (DPI_BACKEND_DIR): refused, it {reason}" in shown and advice in shown, shown


def others_may_write():
    own = put(WORK / "own")
    for mode, who in ((0o775, "its group (mode 0775)"), (0o757, "everybody (mode 0757)"), (0o777, "everybody (mode 0777)")):
        own.chmod(mode)
        refused(own, f"may be written to by {who}", "chmod go-w")
    own.chmod(0o755)
    (own / EMULATED.name).chmod(0o775)  # the file alone
    entry = program(DPI_BACKEND_DIR=str(own))
    assert entry["cuda_emu"]["path"] == str(PLUGINS / EMULATED.name), entry
    # The tree's own folder is held to the same.
    PLUGINS.chmod(0o775)
    devices, rest = library()
    assert "cuda_emu" not in devices and "may be written to by its group" in devices["cuda"]["reason"], devices
    assert "may be written to by its group" in rest and "loaded" not in rest, rest
    PLUGINS.chmod(0o755)


def of_another_user():
    if os.geteuid() != 0:
        SKIPPED.append("not root: a folder of another user cannot be made")
        return
    own = put(WORK / "own")
    os.chown(own, 65534, 65534)
    refused(own, "belongs to user 65534, neither root nor the process's user 0", "chown")


for test in (build_app, nothing_there, found_in_the_tree, named_folder_comes_first, others_may_write, of_another_user):
    if test is not build_app and not EMULATED.exists():
        print("the emulated device is not built: skipped")
        raise SystemExit(77)
    left_out = len(SKIPPED)
    test()
    if len(SKIPPED) == left_out:
        print("passed:", test.__name__)
if SKIPPED:
    print("skipped:", *SKIPPED)
    raise SystemExit(77)
