"""Mutants as files: header lines, then a unified diff with a line or two of context.

    plants: <what it plants, in one line>
    caught by: <a test of ctest, or an area: a folder of tests/>
    survives: <why nothing can see it>            only for a mutant that is the same program
    ends: in time                                 only where a test that does not end counts as caught
    on: aarch64                                   only where the fault is in code of that processor: tests run under qemu-user
    cases: <doctest's filter>                     with `on`: the cases of the test that are run, since an emulator is slow
    --- a/<path>
    +++ b/<path>
    @@ ...

A hunk applies where its lines stand in the file, wherever that is, and they must stand there once: line numbers are not
read, so that a patch stays good while code above it changes."""

import dataclasses
import pathlib
import re

PARTS = {"plan": 14, "loader": 14, "runtime": 12, "cpu": 12, "cuda": 12}  # folder -> at least so many mutants
LEAST = 60  # in all, without those that survive
KEYS = ("plants", "caught by", "survives", "ends", "on", "cases")


class PatchError(Exception):
    pass


@dataclasses.dataclass
class Hunk:
    before: list
    after: list


@dataclasses.dataclass
class Mutant:
    name: str  # part/file without its suffix
    plants: str
    suite: str
    survives: str
    may_hang: bool
    hunks: dict  # path -> [Hunk]
    on: str = ""  # aarch64, or this machine
    cases: str = ""

    @property
    def part(self):
        return self.name.split("/")[0]


def parse(name, text):
    head, _, diff = text.partition("\n--- ")
    keys = {}
    for line in head.splitlines():
        key, colon, value = line.partition(": ")
        if not colon or key not in KEYS or not value.strip() or key in keys:
            raise PatchError(f"'{line}' is no header line, expected one of {', '.join(KEYS)}")
        keys[key] = value.strip()
    for key in ("plants", "caught by"):
        if key not in keys:
            raise PatchError(f"the header has no '{key}:'")
    if keys.get("ends", "in time") != "in time":
        raise PatchError("'ends:' says 'in time' or is left out")
    if keys.get("on", "aarch64") != "aarch64" or ("on" in keys) != ("cases" in keys):
        raise PatchError("'on:' says 'aarch64' beside 'cases:', or both are left out")
    hunks = parse_diff("--- " + diff)
    return Mutant(name, keys["plants"], keys["caught by"], keys.get("survives", ""), "ends" in keys, hunks, keys.get("on", ""), keys.get("cases", ""))


def parse_diff(diff):
    found, path, hunk = {}, None, None
    for line in diff.splitlines():
        if line.startswith("--- "):
            path, hunk = None, None
        elif line.startswith("+++ b/"):
            path = line[len("+++ b/"):]
            found[path] = []
        elif line.startswith("@@") and path:
            hunk = Hunk([], [])
            found[path].append(hunk)
        elif hunk is not None and line[:1] in (" ", "-", "+", ""):
            if line[:1] != "+":
                hunk.before.append(line[1:])
            if line[:1] != "-":
                hunk.after.append(line[1:])
        else:
            raise PatchError(f"'{line}' is no line of a unified diff")
    if not found or not all(found.values()):
        raise PatchError("it changes nothing")
    return found


def apply(hunks, text):
    """The text with the hunks applied in order; each must fit one place."""
    lines = text.split("\n")
    for hunk in hunks:
        n = len(hunk.before)
        places = [i for i in range(len(lines) - n + 1) if lines[i:i + n] == hunk.before]
        if len(places) != 1:
            shown = next((line for line in hunk.before if line.strip()), "")
            raise PatchError(f"its hunk at '{shown.strip()}' fits {len(places)} places, expected 1")
        lines[places[0]:places[0] + n] = hunk.after
    return "\n".join(lines)


def names(root):
    folder = pathlib.Path(root, "tests/mutants")
    return sorted(f"{path.parent.name}/{path.stem}" for path in folder.glob("*/*.patch"))


def read(root, name):
    return parse(name, pathlib.Path(root, "tests/mutants", name + ".patch").read_text(encoding="utf-8"))


def known_suites(root):
    """Areas, and the tests that the CMakeLists.txt of tests register by name."""
    suites = set()
    for path in sorted(pathlib.Path(root, "tests").rglob("CMakeLists.txt")):
        text = path.read_text(encoding="utf-8")
        if re.search(r"\bdpi_(?:command_)?test\(", text):
            suites.add(path.parent.name)
        suites.update(re.findall(r"\bdpi_command_test\(([\w.]+)[\s)]", text))
        for name, rest in re.findall(r"\bdpi_test\((\w+)((?:[^()]|\([^()]*\))*)\)", text):
            devices = re.search(r"\bDEVICES\s+((?:[a-z_0-9:]+\s*)+)", rest)
            suites.update(f"{name}.{device}" for device in devices.group(1).split()) if devices else suites.add(name)
    return suites
