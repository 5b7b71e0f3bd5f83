#!/usr/bin/python3
"""Installs the build into one folder and moves it to another: make_tree.py BUILD WORK. Under a umask that lets a group write, which
must not show. Before that by a relative name, which gives the same."""

import os
import shutil
import subprocess

from installed import BUILD, FIRST, PREFIX, WORK, run

os.umask(0o002)
shutil.rmtree(WORK, ignore_errors=True)
WORK.mkdir()
run(["cmake", "--install", BUILD, "--prefix", "by_name"])
run(["cmake", "--install", BUILD, "--prefix", FIRST])
done = subprocess.run(["diff", "-r", WORK / "by_name", FIRST], capture_output=True, text=True)
assert done.returncode == 0, done.stdout
shutil.rmtree(WORK / "by_name")
assert (FIRST / "lib/libdpi.so.1").exists()
FIRST.rename(PREFIX)
print(f"{sum(1 for _ in PREFIX.rglob('*'))} files and folders")
