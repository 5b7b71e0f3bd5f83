"""Python modules of one package import each other one way, and so do its rooms (folders; a module outside of them is one by itself): what a
module needs can be read, tested and moved without what needs it. An import inside a function counts, and one for type checkers too: they hide a
circle, and leave it there."""

import ast
import os

from common import files, read

PACKAGES = ("weights/python/dpi_export", "bindings/python/dpi")


def check(root):
    found = []
    for package in PACKAGES:
        modules = {_name(package, path): path for path in files(root, (package + "/",), (".py",))}
        graph = {name: _imported(root, name, modules) for name in modules}
        for circle in _circles(graph):
            steps = [f"{modules[a]}:{graph[a][b]} imports {b}" for a, b in zip(circle, circle[1:] + circle[:1])]
            found.append(f"{steps[0]}, a circle: {'; '.join(steps[1:])}")
        rooms = _room_graph(graph, modules, package)
        for circle in _circles(rooms):
            steps = [rooms[a][b] for a, b in zip(circle, circle[1:] + circle[:1])]
            found.append(f"{steps[0]}, a circle of rooms: {'; '.join(steps[1:])}")
    return found


def _room_graph(graph, modules, package):
    """{room: {room it imports: the first such import}}. The circle of a room with itself is not one."""
    rooms = {}
    for name, imported in graph.items():
        own = rooms.setdefault(_room(package, modules[name]), {})
        for target, line in imported.items():
            if _room(package, modules[target]) != _room(package, modules[name]):
                own.setdefault(_room(package, modules[target]), f"{modules[name]}:{line} imports {target}")
    return rooms


def _room(package, path):
    return path[len(package) + 1:].split("/")[0]


def _name(package, path):
    name = path[len(os.path.dirname(package)) + 1:-len(".py")].replace("/", ".")
    return name[:-len(".__init__")] if name.endswith(".__init__") else name


def _imported(root, name, modules):
    """{module: line} of those modules of the package that `name` imports."""
    tree = ast.parse(read(root, modules[name]))
    folder = name if modules[name].endswith("/__init__.py") else name.rpartition(".")[0]
    found = {}
    for node in ast.walk(tree):
        for target in _targets(root, node, folder, modules):
            if target != name:
                found.setdefault(target, node.lineno)
    return found


def _targets(root, node, folder, modules):
    if isinstance(node, ast.Import):
        paths = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        parts = folder.split(".")
        base = parts[:len(parts) - node.level + 1] if node.level else []
        base = ".".join(base + (node.module.split(".") if node.module else []))
        paths = [f"{base}.{alias.name}" if f"{base}.{alias.name}" in modules else base for alias in node.names
                 if f"{base}.{alias.name}" in modules or node.module or _binds(root, modules.get(base), alias.name)]
    else:
        return
    for path in paths:
        yield from (p for p in _with_folders(path, folder) if p in modules)


def _with_folders(path, folder):
    """The module, and the folders whose __init__.py runs before it; those that the importing module lies in have run."""
    parts = path.split(".")
    above = [".".join(parts[:i]) for i in range(1, len(parts))]
    return [path] + [p for p in above if not (folder + ".").startswith(p + ".")]


def _binds(root, path, name):
    """Whether an __init__.py gives the name a value; one that it does not may be a compiled module."""
    tree = ast.parse(read(root, path)) if path else ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) and any((a.asname or a.name) == name for a in node.names):
            return True
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return True
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            return True
    return False


def _circles(graph):
    """One shortest circle through each module that lies on one and on none before it."""
    seen, found = set(), []
    for start in sorted(graph):
        if start not in seen and (circle := _shortest(graph, start)):
            seen.update(circle)
            found.append(circle)
    return found


def _shortest(graph, start):
    ways = [[start]]
    reached = set()
    for way in ways:  # grows while it is read: the shortest ways come first
        for target in sorted(graph[way[-1]]):
            if target == start:
                return way
            if target not in reached:
                reached.add(target)
                ways.append(way + [target])
    return None


_P, _D = PACKAGES
PLANTED = []
CLEAN = [
    (f"{_P}/__init__.py", "from .bundle.writer import write\nfrom .errors import Error\nVERSION = 1\n"),
    (f"{_P}/errors.py", "class Error(ValueError):\n    pass\n"),
    (f"{_P}/schema.py", "from .errors import Error\n"),
    (f"{_P}/bundle/__init__.py", ""),
    (f"{_P}/bundle/reader.py", "import json\nfrom .. import schema\nfrom ..errors import Error\n"),
    (f"{_P}/bundle/writer.py", "from . import reader\n\n\ndef write():\n    from ..errors import Error\n"),
    (f"{_P}/delta/__init__.py", "from .make import delta\n"),
    (f"{_P}/delta/make.py", "import dpi_export.bundle.writer\n"),
    (f"{_P}/delta/names.py", "NAMES = ()\n"),
    (f"{_P}/encoders.py", "from .delta.names import NAMES\nfrom .bundle import reader\n"),
    (f"{_D}/__init__.py", "from .model import Model\n"),
    (f"{_D}/model.py", "from . import _native, rows\n"),
    (f"{_D}/rows.py", "from . import _native\n"),
]
PLANTED_IN_CLEAN = [
    (f"{_P}/bundle/reader.py", "from .writer import write\n", "bundle/reader.py:1 imports dpi_export.bundle.writer, a circle"),
    (f"{_P}/errors.py", "def f():\n    from .schema import x\n", "errors.py:2 imports dpi_export.schema, a circle"),
    (f"{_P}/schema.py", "from .delta import make\n", "schema.py:1 imports dpi_export.delta.make"),
    (f"{_P}/bundle/reader.py", "\nimport dpi_export.delta.make\n", "reader.py:2 imports dpi_export.delta.make"),
    (f"{_P}/errors.py", "from . import VERSION\n", "errors.py:1 imports dpi_export"),
    (f"{_P}/bundle/digest.py", "from ..delta.names import NAMES\n",
     "bundle/digest.py:1 imports dpi_export.delta.names, a circle of rooms: weights/python/dpi_export/delta/make.py:1 imports dpi_export.bundle.writer"),
    (f"{_D}/rows.py", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .model import Model\n", "model.py:1 imports dpi.rows, a circle"),
]
