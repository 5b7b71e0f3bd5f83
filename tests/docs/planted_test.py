#!/usr/bin/env python3
"""The runner of the guide's blocks finds what is wrong with a block, and the site's builder what is wrong with a page: each planted fault
must be told with its place. planted_test.py PREFIX"""

import pathlib
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "packaging/doc/generator")]
import blocks_test  # noqa: E402
import options  # noqa: E402
import reference  # noqa: E402
import render  # noqa: E402

# (page, what must be told); an empty text: nothing is wrong.
PAGES = [
    ("```sh run\necho one\n```\n\n```text output\none\n```\n", ""),
    ("```sh run\necho one\n```\n\n```text output\ntwo\n```\n", "expected"),
    ("```sh run\nfalse; echo one\n```\n", "status 1"),
    ("```sh run\nfalse | true\n```\n", "status 1"),
    ("```sh run\necho $NO_SUCH_VARIABLE\n```\n", "status 1"),
    ("```python run\nraise SystemExit(3)\n```\n", "status 3"),
    ("```c file=a.c\nint main(void) { return dpi_no_such_call(); }\n```\n\n```sh run\ncc -Werror a.c -o a\n```\n", "dpi_no_such_call"),
    ("```c in=call.c\nint unused;\n```\n", "unused"),
    ("```c in=call.c\nreturn 7;\n```\n", "status 7"),
    ("```c in=call.c\nif (dpi_predict(m, &batch, scores, n, NULL, &e) == DPI_OK) puts(\"ok\");\n```\n\n```text output\nok\n```\n", ""),
]


def run_page(text, prefix):
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        path = pathlib.Path(folder, "page.md")
        path.write_text(text, encoding="utf-8")
        args = types.SimpleNamespace(prefix=prefix, jar=prefix, page=None)
        return "\n".join(blocks_test.Page(path, args).run().failed)


def fault_of(call, kind):
    try:
        call()
    except kind as error:
        return str(error)
    return ""


def links_of(html):
    links = render.Links(ROOT, {"packaging/doc/guide/c.md": "c.html"}, {"dpi_predict": "api.html#dpi_predict"}, {"dpi_predict"}, {"device"})
    return links.of_page("packaging/doc/guide/index.md", html, True)


def site_faults():
    """(what was told, what must be told)"""
    yield fault_of(lambda: links_of('<a href="gone.md">x</a>'), render.PageError), "which is no page"
    yield fault_of(lambda: links_of("<code>dpi_gone()</code>"), render.PageError), "dpi_gone() is not in dpi.h"
    yield links_of('<a href="c.md#x">x</a> <code>dpi_predict</code> <code>device=cpu</code>'), \
        '<a href="c.html#x">x</a> <a href="api.html#dpi_predict"><code>dpi_predict</code></a> <a href="options.html#device"><code>device=cpu</code></a>'
    text = (ROOT / "capi/include/dpi/dpi.h").read_text(encoding="utf-8")
    notes = (ROOT / "packaging/doc/reference/errors.md").read_text(encoding="utf-8")
    less = notes.replace("## DPI_E_TIMEOUT", "## DPI_E_TIMEOUTS")
    yield fault_of(lambda: reference.errors_markdown(text, less, "", ""), ValueError), "DPI_E_TIMEOUT, DPI_E_TIMEOUTS"
    for status in ("IO", "QUEUE_FULL", "NO_DEVICE"):  # each status has its line in the short list
        less = notes.replace(f"`DPI_E_{status}`", "`x`", 1)
        yield fault_of(lambda: reference.errors_markdown(text, less, "", ""), ValueError), f"does not name DPI_E_{status}"
    yield fault_of(lambda: reference.errors_markdown(text, notes, "", ""), ValueError), "no ErrInvalidArgument in Go"
    table, explained = options.read(ROOT), (ROOT / "packaging/doc/reference/options.md").read_text(encoding="utf-8")
    yield fault_of(lambda: reference.options_markdown(table[1:], explained), ValueError), "options.def differ in: device"
    yield fault_of(lambda: reference.options_markdown(table, explained.replace("### store.host_bytes", "### store.bytes")), ValueError), "store.bytes, store.host_bytes"


def main():
    prefix = pathlib.Path(sys.argv[1]).resolve()
    (ROOT / "build").mkdir(exist_ok=True)
    missed = 0
    for page, expected in PAGES:
        told = run_page(page, prefix)
        if (expected not in told) or (not expected and told):
            missed += 1
            print(f"expected '{expected}', told '{told}' of\n{page}")
    for told, expected in site_faults():
        if expected not in told:
            missed += 1
            print(f"expected '{expected}', told '{told}'")
    print(f"{missed} planted faults are missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
