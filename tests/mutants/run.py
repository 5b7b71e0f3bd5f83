#!/usr/bin/env python3
"""Plants one fault after another into a copy of the tree, and expects a test to fail.

    tests/mutants/run.py [--only NAME]... [--suite "NAME..."] [--jobs N] [--limit SECONDS] [--json FILE] [--note] [--list]

The tree is copied to build/mutants/tree once and built there with the settings of `tests/run.sh`, but in smaller units; unchanged, it must pass
every suite that is used. Then each mutant (tests/mutants/<part>/<name>.patch) is applied alone, only what its suite needs
is built, and the suite is run: a test has to fail. A build that fails is an error of the mutant, a suite that runs out of
time one too, unless the patch says that it ends in time. Exit status 0: every mutant was caught, or survives with a
reason in its patch; 1: not; 2: the unchanged tree fails, or nothing could be run."""

import argparse
import contextlib
import dataclasses
import datetime
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "rules"))

import patches  # noqa: E402
from common import files  # noqa: E402

GOOD = ("caught", "equivalent")


class Unusable(Exception):
    """Nothing can be said about any mutant."""


@dataclasses.dataclass
class Outcome:
    name: str
    verdict: str  # caught, equivalent (survives with a reason), survived, error, timeout, stale (caught with a reason)
    suite: str
    seconds: float
    detail: str = ""  # the test case that failed first, or what went wrong


def run(command, cwd, limit):
    """(status, output); status None: out of time."""
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        raise


class Tree:
    """The copy, its build folder and its tests."""

    PRESET = "release"

    def __init__(self, jobs, limit):
        self.path = ROOT / "build/mutants/tree"
        self.build = self.path / "build" / self.PRESET
        self.jobs, self.limit = jobs, limit
        os.environ.update(CCACHE_BASEDIR=str(self.path), CCACHE_NOHASHDIR="1")
        os.environ["FULL"] = "0"  # an ordinary run must find them

    @contextlib.contextmanager
    def alone(self):
        """One run at a time works in the copy."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path.parent / "lock", "w", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unusable(f"another run is at work in {self.path}") from None
            yield

    def copy(self):
        """Brings the copy up to date; files that are the same keep their time, so little is built anew."""
        wanted = set(files(str(ROOT)))
        for name in set(files(str(self.path))) - wanted:
            (self.path / name).unlink()
        for name in wanted:
            source, target = ROOT / name, self.path / name
            if not target.is_file() or target.read_bytes() != source.read_bytes():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)

    def configure(self):
        status, output = run(["cmake", "--fresh", "--preset", self.PRESET, "-DDPI_CUDA=OFF", "-DDPI_DEVELOPER_MODE=ON",
                              "-DDPI_UNITY=4"],  # a mutant changes one file: small units are soon compiled
                             self.path, self.limit)
        if status != 0:
            raise Unusable(f"{output}\nthe copy cannot be configured")
        self.tests = self.list_tests()

    def list_tests(self):
        """Test -> (areas, target that builds what it runs)."""
        _, output = run(["ctest", "--show-only=json-v1"], self.build, 60)
        tests, programs = {}, self.programs()
        for test in json.loads(output)["tests"]:
            labels = next((p["value"] for p in test["properties"] if p["name"] == "LABELS"), [])
            program = pathlib.Path(programs.get(test["name"], ""))
            own = program.parent == self.build / "bin/tests"
            tests[test["name"]] = (labels, program.name if own else f"dpi_tests_{labels[0]}")
        return tests

    def programs(self):
        """Test -> the first word of its command, built or not: ctest's own list has no command until then."""
        added = re.compile(r'^add_test\((?:\[=*\[)?(.+?)(?:\]=*\])? "([^"]*)"', re.MULTILINE)
        return dict(pair for path in self.build.rglob("CTestTestfile.cmake") for pair in added.findall(path.read_text(encoding="utf-8")))

    def of_suite(self, suite):
        return [name for name, (labels, _) in self.tests.items() if name == suite or suite in labels]

    def make(self, tests):
        targets = sorted({self.tests[name][1] for name in tests})
        status, output = run(["ninja", "-C", str(self.build), "-j", str(self.jobs), *targets], self.path, 20 * self.limit)
        return "" if status == 0 else output or "the build runs out of time"

    def test(self, tests, limit, _):
        """(tests that did not pass, is it for time alone, output)."""
        pattern = "^(" + "|".join(map(re.escape, tests)) + ")$"
        _, output = run(["ctest", "-R", pattern, "-j", str(self.jobs), "--output-on-failure", "--no-tests=error"],
                        self.build, limit * len(tests))
        results = dict(re.findall(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) (.*?) +[\d.]+ sec", output, re.MULTILINE))
        bad = [name for name in tests if not results.get(name, "").endswith("Passed")]
        late = bool(bad) and all("Timeout" in results.get(name, "Timeout") for name in bad)
        return bad, late, output


class Emulated(Tree):
    """The copy, cross-compiled: its tests run under qemu-user, and of each the cases that the patch names."""

    PRESET = "aarch64"

    def configure(self):
        sysroot, link = ROOT / "build/sysroot-arm64", self.path / "build/sysroot-arm64"
        status, output = run([ROOT / "packaging/sysroot.sh", sysroot], ROOT, 10 * self.limit)
        if status != 0:
            raise Unusable(f"{output}\nthere are no headers and archives of arm64")
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(sysroot)
        super().configure()

    def test(self, tests, limit, cases):
        _, listed = run(["ctest", "--show-only=json-v1"], self.build, 60)
        commands = {test["name"]: test.get("command", ["false"]) for test in json.loads(listed)["tests"]}
        bad, late, outputs = [], False, []
        for name in tests:
            status, output = run([*commands[name], f"--test-case={cases}"], self.path, limit)
            if status != 0 or not re.search(r"test cases: +[1-9]", output):  # a filter that fits no case tests nothing
                bad.append(name)
            late = late or status is None
            outputs.append(output)
        return bad, late, "\n".join(outputs)


def judge(tree, mutant):
    """Verdict and detail of one mutant; the tree is as it was afterwards."""
    before = {path: (tree.path / path).read_text(encoding="utf-8") for path in mutant.hunks}
    tests = [name for suite in mutant.suite.split() for name in tree.of_suite(suite)]
    try:
        for path, hunks in mutant.hunks.items():
            (tree.path / path).write_text(patches.apply(hunks, before[path]), encoding="utf-8")
        if failed := tree.make(tests):
            wrong = [line for line in failed.splitlines() if " error: " in line]
            return "error", "does not build: " + (wrong or failed.splitlines()[-1:])[0]
        bad, late, output = tree.test(tests, tree.limit, mutant.cases)
    finally:
        for path, text in before.items():
            (tree.path / path).write_text(text, encoding="utf-8")
    if not bad:
        return ("equivalent", mutant.survives) if mutant.survives else ("survived", "")
    if late and not mutant.may_hang:
        return "timeout", f"{bad[0]} does not end in {tree.limit} s"
    if mutant.survives:
        return "stale", f"its patch says that it survives, but {bad[0]} fails"
    return "caught", first_failure(bad, output, late)


def first_failure(bad, output, late):
    if late:
        return f"{bad[0]} does not end"
    case = re.search(r"TEST CASE:\s+(.*)", output)
    if len(bad) > 1 or not case:
        return ", ".join(bad)
    return f"{bad[0]}: {case.group(1).strip()}"


def check_baseline(tree, mutants):
    """Do the suites pass without a fault? A test that is skipped here could catch nothing."""
    for mutant in mutants:
        for suite in mutant.suite.split():
            if not tree.of_suite(suite):
                raise Unusable(f"{mutant.name}: there is no test or area '{suite}'")
    tests = sorted({name for mutant in mutants for suite in mutant.suite.split() for name in tree.of_suite(suite)})
    print(f"unchanged tree: {len(tests)} tests", flush=True)
    if failed := tree.make(tests):
        raise Unusable(f"{failed}\nthe unchanged tree does not build")
    for cases in sorted({mutant.cases for mutant in mutants}):
        bad, _, output = tree.test(tests, tree.limit, cases)
        if bad:
            raise Unusable(f"{output}\nthe unchanged tree fails: {', '.join(bad)}")


def run_all(tree, mutants):
    outcomes = []
    for number, mutant in enumerate(mutants, 1):
        started = time.monotonic()
        verdict, detail = judge(tree, mutant)
        outcome = Outcome(mutant.name, verdict, mutant.suite, round(time.monotonic() - started, 1), detail)
        outcomes.append(outcome)
        print(f"[{number}/{len(mutants)}] {outcome.name}: {verdict} ({outcome.seconds} s) {detail}", flush=True)
    return outcomes


def choose(only):
    """Mutants by name or part, those of one file side by side, so that little is built between them."""
    names = [name for name in patches.names(ROOT) if not only or any(name == o or name.startswith(o + "/") for o in only)]
    if not names:
        raise Unusable("no such mutant; see --list")
    return sorted((patches.read(ROOT, name) for name in names), key=lambda m: (sorted(m.hunks), m.name))


MARK = "<!-- last result -->\n"


def note(outcomes, seconds):
    """Puts the result at the end of README.md, in place of the one before."""
    readme = HERE / "README.md"
    count = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in GOOD}
    lines = [f"{datetime.date.today()}: {len(outcomes)} mutants, {count['caught']} caught, {count['equivalent']} equivalent, "
             f"in {seconds / 60:.0f} minutes.\n", "\n| mutant | caught by | seconds |\n|---|---|---|\n"]
    for o in sorted(outcomes, key=lambda o: o.name):
        found = f"survives: {o.detail}" if o.verdict == "equivalent" else o.detail.replace("|", "\\|")
        lines.append(f"| `{o.name}` | {found} | {o.seconds:.0f} |\n")
    readme.write_text(readme.read_text(encoding="utf-8").split(MARK)[0] + MARK + "".join(lines), encoding="utf-8")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], help="a mutant (part/name) or a part; may be repeated")
    parser.add_argument("--suite", help="tests or areas, in place of those that the patches name: which of them see the fault?")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="compilations and tests side by side")
    parser.add_argument("--limit", type=int, default=120, help="seconds that a test may take (120)")
    parser.add_argument("--json", help="writes the outcomes there")
    parser.add_argument("--note", action="store_true", help="notes the result in README.md, if all is well")
    parser.add_argument("--list", action="store_true", help="prints the mutants and ends")
    return parser.parse_args()


def main():
    args = arguments()
    mutants = choose(args.only)
    if args.list:
        for mutant in sorted(mutants, key=lambda m: m.name):
            print(f"{mutant.name}: {mutant.plants} ({mutant.suite})")
        return 0
    for mutant in mutants:
        mutant.suite = args.suite or mutant.suite
    started = time.monotonic()
    outcomes = []
    for kind, on in ((Tree, ""), (Emulated, "aarch64")):
        chosen = [mutant for mutant in mutants if mutant.on == on]
        if chosen and on and not (shutil.which("aarch64-linux-gnu-g++") and shutil.which("qemu-aarch64")):
            print(f"left out: {len(chosen)} mutants of {on}: packaging/setup.sh {on} installs what builds and runs them")
        elif chosen:
            outcomes += in_tree(kind(args.jobs, args.limit), chosen)
    if not outcomes:
        raise Unusable("no mutant could be run")
    return conclude(args, outcomes, time.monotonic() - started)


def in_tree(tree, mutants):
    with tree.alone():
        tree.copy()
        tree.configure()
        check_baseline(tree, mutants)
        return run_all(tree, mutants)


def conclude(args, outcomes, seconds):
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps([dataclasses.asdict(o) for o in outcomes], indent=1) + "\n", encoding="utf-8")
    bad = [o for o in outcomes if o.verdict not in GOOD]
    for o in bad:
        print(f"{o.verdict}: {o.name} {o.detail}")
    print(f"{len(outcomes)} mutants, {len(outcomes) - len(bad)} as expected, in {seconds:.0f} s")
    if args.note and not bad and not args.only and not args.suite:
        note(outcomes, seconds)
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unusable as why:
        print(why)
        sys.exit(2)
