#!/usr/bin/python3
"""What an installed Python package says of itself, out of pyproject.toml: dist_info.py SOURCES VERSION OUT."""

import pathlib
import sys
import tomllib

sources, version, out = sys.argv[1:]
project = tomllib.loads(pathlib.Path(sources, "pyproject.toml").read_text())["project"]
assert f'VERSION = "{version}"' in pathlib.Path(sources, "dpi_export/bundle/builder.py").read_text(), f"dpi_export is not version {version}"
folder = pathlib.Path(out, f"{project['name'].replace('-', '_')}-{version}.dist-info")
folder.mkdir()
lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {version}", f"Summary: {project['description']}",
         f"License: {project['license']['text']}", f"Requires-Python: {project['requires-python']}"]
lines += [f"Requires-Dist: {need}" for need in project["dependencies"]]
for extra in ("sign",):
    lines += [f"Provides-Extra: {extra}"]
    lines += [f'Requires-Dist: {need} ; extra == "{extra}"' for need in project["optional-dependencies"][extra]]
(folder / "METADATA").write_text("\n".join(lines) + "\n")
