"""A comment or README that names a file of the project names one that is there: a reader follows it. A name may leave out leading
folders (`plan/plan.hpp`, `plan.hpp`). Not looked at: fenced blocks of a README (commands, and the recipe that
tests/ops/recipe_test.py carries out) and paths below build/."""

import io
import re
import tokenize

from common import CXX, files, read

FOLDERS = ("sdk/", "kernels/", "capi/", "tests/", "packaging/doc/design/")
SUFFIXES = CXX + (".py", ".sh", ".cmake", ".md", "CMakeLists.txt")
NAME = re.compile(r"(?<![\w/<>$*{}.-])((?:\.{1,2}/)*(?:[\w.-]+/)*[\w-]+\.(?:hpp|cpp|cuh?|h|c|py|sh|cmake))(?![\w*({/]|\.\w)")
CXX_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
FENCE = re.compile(r"(?ms)^```.*?^```")


def check(root):
    there = {"/" + path for path in files(root)}
    ends = {path[at:] for path in there for at in range(len(path)) if path[at] == "/"}
    found = []
    for path in files(root, FOLDERS, SUFFIXES):
        for line, text in prose(path, read(root, path)):
            for match in NAME.finditer(text):
                name = re.sub(r"^(?:\.{1,2}/)+", "", match.group(1))
                if "/" + name not in ends and not name.startswith("build/"):
                    at = line + text.count("\n", 0, match.start())
                    found.append(f"{path}:{at}: names {match.group(1)}, which is nowhere in the tree")
    return found


def prose(path, text):
    """(first line, text) of what is written for people: comments, docstrings, a README outside its fenced blocks."""
    if path.endswith(CXX):
        return [(text.count("\n", 0, m.start()) + 1, m.group(1)) for m in CXX_COMMENT.finditer(text) if m.group(1)]
    if path.endswith(".py"):
        return python_prose(text)
    if path.endswith(".md"):
        return [(1, FENCE.sub(lambda m: "\n" * m.group(0).count("\n"), text))]
    return [(n, line[line.index("#"):]) for n, line in enumerate(text.split("\n"), 1) if re.search(r"(?:^|\s)#", line)]


def python_prose(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(t.start[0], t.string) for t in tokens
            if t.type == tokenize.COMMENT or (t.type == tokenize.STRING and t.string.startswith('"""'))]


PLANTED = [
    ("sdk/src/plan/a.hpp", "// Reading order:\n// lower.hpp, then the rest\n", "a.hpp:2: names lower.hpp"),
    ("kernels/cuda/a.cu", "int x; /* as\n cuda/b.cu does */\n", "a.cu:2: names cuda/b.cu"),
    ("capi/include/dpi/a.h", "/* see src/model.cpp. */\n", "names src/model.cpp"),
    ("tests/x/README.md", "# X\n\n`make_x.py` writes them.\n", "README.md:3: names make_x.py"),
    ("tests/x/a.py", '"""Run by\ny.py."""\n', "a.py:2: names y.py"),
    ("tests/x/run.sh", "set -e\nx  # needs common.sh\n", "run.sh:2: names common.sh"),
    ("sdk/README.md", "plan/x.cpp\n", "names plan/x.cpp"),
]
CLEAN = [
    ("sdk/src/plan/plan.hpp", "#include <vector>  // plan/plan.hpp, plan.hpp, ./plan.hpp, ../plan/plan.hpp\nconst char* s = \"// x.cpp\";\n"),
    ("tests/x/README.md", "`build/x.sh`, `*.cpp`, `vec_<isa>.hpp`, dpi.hpp.in\n```sh\npython3 made.py\n```\n"),
    ("tests/x/a.py", 'NAME = "absent.cpp"  # a name in code\n'),
]
