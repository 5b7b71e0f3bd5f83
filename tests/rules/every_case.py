"""Every test case is run by one test of ctest. A test names the files of its cases (packaging/cmake/DpiTests.cmake): one that no test
names would compile, and never run; one that two name would run twice. Looked at is a build tree, DPI_BUILD: its tests, and what its programs
are compiled from; of programs that are built also how many cases each test runs. A tree that leaves parts out does not know all tests:
CMakeLists.txt says where this rule is asked."""

import fnmatch
import json
import os
import pathlib
import re
import subprocess

from common import files, read

CASE = re.compile(r"^\s*TEST_CASE(?:_FIXTURE)?\(", re.MULTILINE)
ADD_TEST = re.compile(r'^add_test\((?:\[=*\[)?(.+?)(?:\]=*\])? "([^"]*)"([^\n]*)\)$', re.MULTILINE)
FILTER = re.compile(r'"--source-file=([^"]*)"')


def tests_of(build):
    """Test -> (its program, the filter's patterns or None)."""
    found = {}
    for path in sorted(pathlib.Path(build).rglob("CTestTestfile.cmake")):
        for name, program, rest in ADD_TEST.findall(path.read_text(encoding="utf-8")):
            given = FILTER.search(rest)
            found[name] = (program, given.group(1).split(",") if given else None)
    return found


def sources_of(root, build):
    """Program -> the files of the tree that it is compiled from, those inside units too."""
    found = {}
    for command in json.loads(pathlib.Path(build, "compile_commands.json").read_text(encoding="utf-8")):
        target = re.search(r"CMakeFiles/(\w+)\.dir/", command["command"])
        if not target:
            continue
        source, members = pathlib.Path(root, command["file"]), found.setdefault(target.group(1), set())
        if source.parent.name == "units" and source.is_relative_to(build):
            members.update(re.findall(r'#include "([^"]+)"', source.read_text(encoding="utf-8")))
        elif source.is_relative_to(root):
            members.add(str(source.relative_to(root)))
    return found


def check(root):
    build = os.environ.get("DPI_BUILD") or os.path.join(root, "build/planted")
    if not os.path.isfile(os.path.join(build, "compile_commands.json")):
        return []
    cases = {path: len(CASE.findall(read(root, path))) for path in files(root, ("tests/",), (".cpp", ".hpp"))}
    cases = {path: count for path, count in cases.items() if count > 0}
    compiled, found, run_by = sources_of(root, build), [], {path: set() for path in cases}
    counted = set()
    for name, (program, patterns) in tests_of(build).items():
        members = [path for path in sorted(compiled.get(pathlib.Path(program).name, ())) if path in cases]
        for path in members:
            if not path.endswith("_test.cpp"):
                found.append(f"{path}: has test cases, and is not named *_test.cpp: filters do not name it")
        for pattern in patterns or ():
            if not any(fnmatch.fnmatchcase("/" + path, pattern) for path in members):
                found.append(f"{name}: its filter {pattern} names no file of {pathlib.Path(program).name} that has test cases")
        runs = [path for path in members if patterns is None or any(fnmatch.fnmatchcase("/" + path, p) for p in patterns)]
        test = name.split(".")[0]
        for path in runs:
            run_by[path].add(test)
        if runs and test not in counted and os.path.isfile(program):
            counted.add(test)
            found += count(test, program, patterns, [(read(root, path), cases[path]) for path in runs])
    for path, tests in run_by.items():
        if path.endswith("_test.cpp") and len(tests) != 1:
            found.append(f"{path}: " + (f"{' and '.join(sorted(tests))} run its cases" if tests else "no test of ctest runs its cases"))
    return sorted(set(found))


def count(test, program, patterns, runs):
    """What doctest lists of the files: (text, cases). One with an #if may have fewer."""
    given = [f"--source-file={','.join(patterns)}"] if patterns else []
    text = subprocess.run([program, *given, "--list-test-cases", "--no-colors"], capture_output=True, text=True, check=False).stdout
    listed = re.search(r"unskipped test cases passing the current filters: (\d+)", text)
    got, wanted = int(listed.group(1)) if listed else 0, sum(number for _, number in runs)
    fewer = 0 < got < wanted and any(re.search(r"^#if", text, re.MULTILINE) for text, _ in runs)
    return [] if got == wanted or fewer else [f"{test}: {pathlib.Path(program).name} lists {got} cases for it, its files have {wanted}"]


_BUILD = "build/planted/"
_UNIT = _BUILD + "tests/x/units/x_tests_1.cpp"
_TEST = 'add_test([=[{}]=] "/b/bin/tests/x_tests" "--device=cpu" "--source-file=*/tests/x/{}_test.cpp")\n'
_CASES = 'TEST_CASE("a") {}\n'
CLEAN = [
    (_BUILD + "compile_commands.json", json.dumps([{"file": _UNIT, "command": "c++ -o tests/x/CMakeFiles/x_tests.dir/units/x_tests_1.cpp.o"}])),
    (_UNIT, '#include "tests/x/a_test.cpp"\n#include "tests/x/b_test.cpp"\n#include "tests/x/fixture.cpp"\n'),
    (_BUILD + "tests/x/CTestTestfile.cmake", _TEST.format("a_test.cpu", "a") + _TEST.format("a_test.ref", "a") + _TEST.format("b_test", "b")),
    ("tests/x/a_test.cpp", _CASES), ("tests/x/b_test.cpp", _CASES), ("tests/x/fixture.cpp", "int f();\n"),
]
PLANTED = []
PLANTED_IN_CLEAN = [
    ("tests/x/c_test.cpp", _CASES, "tests/x/c_test.cpp: no test of ctest runs its cases"),
    ("tests/x/fixture.cpp", _CASES, "tests/x/fixture.cpp: has test cases, and is not named"),
    ("tests/x/b_test.cpp", "int b();\n", "b_test: its filter */tests/x/b_test.cpp names no file"),
    (_BUILD + "tests/y/CTestTestfile.cmake", _TEST.format("other", "a"), "tests/x/a_test.cpp: a_test and other run its cases"),
]
