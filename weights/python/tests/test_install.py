"""The README's way to install the package, word by word, on a copy of the tree under git, without a network."""

import os
import pathlib
import re
import shutil
import subprocess
import zipfile

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
TREE = PACKAGE.parents[1]


def commands():
    """The shell block of README.md, without comments."""
    block = re.search(r"```sh\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S).group(1)
    return [line.split("  #")[0].strip() for line in block.splitlines()]


def git(tree, *words):
    who = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    return subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True, text=True).stdout


def copy_of_the_tree(target):
    skip = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".pytest_cache")
    shutil.copytree(PACKAGE, target / "weights" / "python", ignore=skip)
    for name in (".gitignore", "weights/demo/adult_widedeep.h5"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(TREE / name, target / name)
    git(target, "init", "-q")
    git(target, "add", "-A")
    git(target, "commit", "-qm", "copy")


def named_only(folder, name, version):
    """A wheel without a module: Debian installs h5py and xxhash under names or versions that pip does not count, so pip would
    fetch them. The module that is imported is Debian's."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", f"{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def test_the_readme_installs_and_leaves_nothing_behind(tmp_path):
    tree, wheels = tmp_path / "tree", tmp_path / "wheels"
    tree.mkdir()
    wheels.mkdir()
    copy_of_the_tree(tree)
    for name in ("numpy", "h5py", "xxhash"):
        named_only(wheels, name, "99.0")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env.update(PATH="/usr/bin:/bin", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels), PIP_NO_BUILD_ISOLATION="0", PIP_DISABLE_PIP_VERSION_CHECK="1")
    lines = commands()
    assert len(lines) == 3
    for line in lines:
        done = subprocess.run(["bash", "-c", line], cwd=tree, env=env, capture_output=True, text=True)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert "adult_widedeep" in done.stdout
    where = "import dpi_export; print(dpi_export.__file__)"
    found = subprocess.run([tree / ".venv/bin/python", "-c", where], cwd="/", env=env, capture_output=True, text=True, check=True)
    assert found.stdout.startswith(str(tree / ".venv"))
    assert (tree / ".venv/bin/dpi-export").exists()
    assert git(tree, "status", "--porcelain") == ""
