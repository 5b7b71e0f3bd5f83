"""A README's table that says which test shows what names tests that are there. In a README of tests/, text in *italics* behind the name of
a test's file (such as `name`.cpp, with test in its name) has to be in a file of that name; several texts may follow one name."""

import re

from common import files, read

TEXTS = re.compile(r"`([\w]+\.(?:cpp|py))`((?:[^`|*]*\*[^*|`]+\*)+)")


def one_line(source):
    """String literals that follow each other are one."""
    return re.sub(r"\s*\n\s*", " ", re.sub(r'"\s*\n\s*"', "", source))


def check(root):
    sources, found = {}, []
    for path in files(root, ("tests/",), (".cpp", ".py")):
        sources.setdefault(path.rsplit("/", 1)[-1], []).append(one_line(read(root, path)))
    for path in files(root, ("tests/",), ("README.md",)):
        for number, line in enumerate(read(root, path).split("\n"), 1):
            for file, texts in TEXTS.findall(line):
                if "test" not in file:
                    continue
                for text in re.findall(r"\*([^*|]+)\*", texts):
                    if not any(text in source for source in sources.get(file, [])):
                        found.append(f"{path}:{number}: names '{text}', which is not in {file}")
    return found


PLANTED = [
    ("tests/x/README.md", "| rows | `a_test.cpp` *rows come back* |\n", "names 'rows come back', which is not in a_test.cpp"),
]
PLANTED_IN_CLEAN = [
    ("tests/x/README.md", "`a_test.cpp` *rows come*, *rows go*\n", "names 'rows go'"),
    ("tests/x/README.md", "`test_b.py` *test_c*\n", "names 'test_c'"),
]
CLEAN = [
    ("tests/x/a_test.cpp", 'TEST_CASE("rows come back, "\n  "all of them") {}\n'),
    ("tests/x/test_b.py", "def test_b():\n    pass\n"),
    ("tests/y/README.md", "| x | `a_test.cpp` *rows come back*, its *all of them*; `test_b.py` *test_b* | `a_test.cpp` |\n"),
]
