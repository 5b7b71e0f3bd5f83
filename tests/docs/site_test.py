#!/usr/bin/env python3
"""A built site: valid HTML, no link or anchor inside it that leads nowhere, nothing from elsewhere, every status, option, command and function told of.

    site_test.py SITE --library LIBDPI --program DPI --bundle FILE.h5
    site_test.py --self-test        each check finds what is planted for it

Javadoc's own pages are checked for links only: what javadoc writes is not ours to make valid."""

import argparse
import ctypes
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.parse

import html5lib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging/doc/generator"))
import blocks  # noqa: E402
import header as dpi_header  # noqa: E402
import options as dpi_options  # noqa: E402

HEADER = dpi_header.whole(ROOT / "capi/include/dpi")


NOT_UNDERSTOOD = re.compile(r"\|-{2,}.{0,20}|\n- .{0,20}|\]\([\w./#-]+\)|\*\*.{0,20}|```.{0,20}")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.text = path.read_text(encoding="utf-8")
        self.ids, self.links, self.loads = [], [], []
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids += [attrs[k] for k in ("id",) if attrs.get(k)]
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        self.loads += [attrs[k] for k in ("src", "href") if k in attrs and tag in ("script", "img", "link", "iframe", "source")]


def read_site(site):
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html")) if "legal" not in path.parts}


def own(name):
    return not name.startswith("java/")


def invalid_html(pages):
    found = []
    for name, page in pages.items():
        if not own(name):
            continue
        parser = html5lib.HTMLParser(strict=False)
        parser.parse(page.text)
        found += [f"{name}:{at[0]}: {error}" for at, error, _ in parser.errors]
        found += [f"{name}: id {i} is there {page.ids.count(i)} times" for i in sorted(set(page.ids)) if page.ids.count(i) > 1]
        found += [f"{name}: Markdown that was not understood: {text}" for text in NOT_UNDERSTOOD.findall(re.sub(r"(?s)<(pre|code).*?</\1>", "", page.text))]
    return found


def dead_links(site, pages):
    found = []
    for name, page in pages.items():
        for link in page.links + page.loads:
            target, _, anchor = link.partition("#")
            if re.match(r"[a-z]+:|//", target):
                if link in page.loads or own(name):
                    found.append(f"{name}: {link} is not of this site")
                continue
            path = name if not target else (pathlib.PurePosixPath(name).parent / urllib.parse.unquote(target)).as_posix()
            path = _normal(path)
            if not (site / path).is_file():
                found.append(f"{name}: {link} leads nowhere")
            elif anchor and own(name) and path in pages and urllib.parse.unquote(anchor) not in pages[path].ids:
                found.append(f"{name}: {link}: no such place on {path}")
    return found


def _normal(path):
    parts = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def left_out(pages, library, program, bundle):
    """What the header, the library or the program has, and the site does not tell of."""
    found = [f"errors.html: no section {s.name}" for s in dpi_header.statuses(HEADER) if s.number and s.name not in pages["errors.html"].ids]
    functions = set(re.findall(r"\b(dpi_\w+)\(", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)))
    constants = set(re.findall(r"\b(DPI_(?!E_)\w+) =", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL)))
    found += [f"api.html: no {name}" for name in sorted(functions | constants) if name not in pages["api.html"].ids]
    commands = re.findall(r"(?m)^  (\w+) {2,}\S", _run([program, "--help"]).split("Subcommands:")[1].split("\n\n")[0])
    found += [f"program.html: no command {c}" for c in commands if c not in pages["program.html"].ids]
    return found + option_faults(pages["options.html"].ids, dpi_options.read(), *library_options(library, bundle))


def option_faults(ids, told, known, defaults):
    """The options of options.def against those that the library names, and against its defaults."""
    keys = {o.key for o in told}
    found = [f"options: {key} is told of and not known to the library" for key in sorted(keys - known)]
    found += [f"options: {key} is known to the library and not told of" for key in sorted(known - keys)]
    found += [f"options.html: no {key}" for key in sorted(keys - set(ids))]
    spoken = {"none": "", "usable CPUs": "0"}
    for option in told:
        inside = defaults.get(option.key)
        in_force = option.default == "usable CPUs" and inside is not None and inside.isdigit() and int(inside) <= os.cpu_count()
        if inside is not None and not in_force and inside not in (option.default, spoken.get(option.default)):
            found.append(f"options: {option.key} is told to be {option.default} and is {inside}")
    return found


def library_options(library, bundle):
    """({key}, {key: default}) as the library itself says."""
    lib = ctypes.CDLL(str(library))
    lib.dpi_options_create.restype = ctypes.c_void_p
    lib.dpi_model_info_json.restype = ctypes.c_size_t
    error = ctypes.create_string_buffer(512)
    ctypes.c_uint32.from_buffer(error).value = 512
    options, model = ctypes.c_void_p(lib.dpi_options_create()), ctypes.c_void_p()
    known = set()
    for none in (b"no_such_option", b"debug.none", b"store.none", b"table.a.none"):
        lib.dpi_options_set(options, none, b"", error)
        message = error.raw[32:].split(b"\0")[0].decode()
        keys = re.sub(r"(\w+\.)\{([^}]*)\}", lambda m: m[1] + m[2].replace(", ", ", " + m[1]), message.split("known: ")[1])
        known |= {key for key in keys.split(", ") if not key.endswith("*")}
    assert lib.dpi_model_load(str(bundle).encode(), None, ctypes.byref(model), None) == 0
    buffer = ctypes.create_string_buffer(1 << 20)
    lib.dpi_model_info_json(model, buffer, ctypes.c_size_t(len(buffer)))
    lib.dpi_model_free(model)
    lib.dpi_options_free(options)
    return known, json.loads(buffer.value)["options"]


MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)[^`]*`")
OF_OTHERS = {"System.Logger"}


def member_faults(text, java, go):
    """`Model.infoJson()` in the guide: a member of a class in Java or of a type in Go. java: {class: source}; go: the package's source."""
    found = []
    for kind, member in sorted(set(MEMBER.findall(text))):
        in_java = re.search(rf"\b{member}\b", java.get(kind, ""))
        in_go = re.search(rf"func \(\w* ?\*?{kind}\) {member}\(|type {kind} struct {{[^}}]*\b{member}\b", go)
        if not in_java and not in_go and f"{kind}.{member}" not in OF_OTHERS:
            found.append(f"{kind}.{member} is neither in Java nor in Go")
    return found


def members_of_the_guide():
    java = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "bindings/java/src/main/java/org/dpiframe").glob("*.java")}
    go = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "bindings/go").glob("*.go")))
    return member_faults(guide_text(), java, go)


def guide_text():
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "packaging/doc").glob("*/*.md")))


METRIC = re.compile(r"\bdpi_(?:\w+_total|longest_wait_seconds|(?:call|wait|stage)_seconds|(?:call|chunk)_rows|parked_now|http_\w+|model_(?:host_bytes|device_bytes|version|since_seconds)|build_info|endpoint_(?:refused|folder_unreadable))\b")


def metric_faults(text, sample, page):
    """Names of metrics in the guide that neither the sample service adds nor a page of the library has."""
    known = set(re.findall(r'"(dpi_(?:http|model|build|endpoint)_\w+)"', sample)) | set(re.findall(r"(?m)^# TYPE (\w+)", page))
    known |= {name + part for name in known for part in ("_bucket", "_sum", "_count")} | {"dpi_errors_total"}
    known |= {f"dpi_record{name}_total" for name in ("ed_requests", "ed_bytes", "_dropped")}  # where something is recorded: e2e/cli/test_recording.py
    return [f"metric {name} is none" for name in sorted(set(METRIC.findall(text)) - known)]


def metrics_of_the_guide(library, bundle):
    lib = ctypes.CDLL(str(library))
    model, buffer = ctypes.c_void_p(), ctypes.create_string_buffer(1 << 20)
    assert lib.dpi_model_load(str(bundle).encode(), None, ctypes.byref(model), None) == 0
    lib.dpi_metrics.restype = ctypes.c_size_t
    assert 0 < lib.dpi_metrics(None, ctypes.c_uint32(0), buffer, ctypes.c_size_t(len(buffer))) < len(buffer)
    lib.dpi_model_free(model)
    sample = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "samples/go/scoreservice").glob("*.go")))
    # A model with a host tier and a store below it: tests/runtime/metrics_page_test.cpp holds the library to this page.
    tiered = (ROOT / "tests/runtime/made_up_counters.txt").read_text(encoding="utf-8")
    return metric_faults(guide_text(), sample, buffer.value.decode() + tiered)


def unmarked_blocks():
    """Blocks of the sources that promise nothing, or something that they cannot."""
    found = []
    for path in sorted((ROOT / "packaging/doc").glob("*/*.md")):
        try:
            blocks.blocks_of(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))
        except blocks.BlockError as error:
            found.append(str(error))
    return found


def _run(command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True).stdout


# ---- what is planted ----

GOOD = '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>t</title></head><body><h2 id="a">x</h2>{}</body></html>'


def planted_site(body):
    with tempfile.TemporaryDirectory() as folder:
        site = pathlib.Path(folder)
        (site / "index.html").write_text(GOOD.format(body), encoding="utf-8")
        pages = read_site(site)
        return invalid_html(pages) + dead_links(site, pages)


def planted_block(text):
    try:
        blocks.blocks_of("page.md", text)
    except blocks.BlockError as error:
        return [str(error)]
    return []


def option(key, default):
    return dpi_options.Option(key, "", default, "")


PLANTED = [
    (lambda: planted_site("<p><table></p>"), "index.html"),
    (lambda: planted_site("<p>a\n| b |\n|---|\n</p>"), "Markdown that was not understood"),
    (lambda: planted_site("<p>a\n- b</p>"), "Markdown that was not understood"),
    (lambda: planted_site("<p>[a](b.md)</p>"), "Markdown that was not understood"),
    (lambda: planted_site('<p id="a">x</p>'), "id a is there 2 times"),
    (lambda: planted_site('<a href="gone.html">x</a>'), "leads nowhere"),
    (lambda: planted_site('<a href="#b">x</a>'), "no such place"),
    (lambda: planted_site('<img src="https://example.org/a.png" alt="">'), "not of this site"),
    (lambda: planted_block("```c\nint x;\n```\n"), "needs a mark"),
    (lambda: planted_block("```\nint x;\n```\n"), "language ''"),
    (lambda: planted_block("```rust run\nx\n```\n"), "language 'rust'"),
    (lambda: planted_block("```sh skip\nx\n```\n"), "unknown mark"),
    (lambda: planted_block("```sh not-run\nx\n```\n"), "mark 'not-run'"),
    (lambda: planted_block("```c file=a.c\nx\n```\n\n```sh run\ncc b.c\n```\n"), "names a.c"),
    (lambda: planted_block("text\n\n```text output\nx\n```\n"), "output of no program"),
    (lambda: option_faults(["a"], [option("a", "1")], {"a", "b"}, {"a": "1"}), "b is known to the library"),
    (lambda: option_faults(["a"], [option("a", "1")], set(), {}), "not known to the library"),
    (lambda: option_faults(["a"], [option("a", "1")], {"a"}, {"a": "2"}), "told to be 1 and is 2"),
    (lambda: option_faults([], [option("a", "1")], {"a"}, {"a": "1"}), "options.html: no a"),
    (lambda: member_faults("`Model.gone()`", {"Model": "int here()"}, "func (m *Model) There() {"), "Model.gone is neither"),
    (lambda: metric_faults("dpi_gone_total dpi_calls_total", "", "# TYPE dpi_calls_total counter\n"), "dpi_gone_total is none"),
    (lambda: [] if blocks.matches("a\nb\n", "a\nc\n") else ["differs"], "differs"),
    (lambda: [] if blocks.matches("a ... b\n...\nz\n", "a x b\nno end\n") else ["differs"], "differs"),
]
CLEAN = [
    lambda: member_faults("`Model.here(x)` `Model.There` `Info.Rows`", {"Model": "int here()"}, "func (m *Model) There() {\ntype Info struct {\nRows int }"),
    lambda: planted_site('<a href="#a">x</a><a href="index.html#a">y</a>'),
    lambda: planted_block("```c file=a.c\nx\n```\n\n```sh run\ncc a.c\n```\n\n```text output\n...\n```\n\n```json\n{}\n```\n"),
    lambda: option_faults(["a", "b"], [option("a", "none"), option("b", "usable CPUs")], {"a", "b"}, {"a": "", "b": "0"}),
    lambda: [] if blocks.matches("a ... b\n...\nz\n", "a x b\n1\n2\nz\n") and blocks.matches("...\nz", "z\n") else ["differs"],
]


def self_test():
    missed = [expected for plant, expected in PLANTED if not any(expected in text for text in plant())]
    for text in missed:
        print(f"not found: {text}")
    wrong = [text for clean in CLEAN for text in clean()]
    for text in wrong:
        print(f"found where nothing is wrong: {text}")
    print(f"{len(PLANTED) - len(missed)} of {len(PLANTED)} planted faults are found")
    return 1 if missed or wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("site", type=pathlib.Path, nargs="?")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--bundle", type=pathlib.Path)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return self_test()
    pages = read_site(args.site)
    found = invalid_html(pages) + dead_links(args.site, pages) + left_out(pages, args.library, args.program, args.bundle) + unmarked_blocks() + \
        metrics_of_the_guide(args.library, args.bundle) + members_of_the_guide()
    for text in found:
        print(text)
    links = sum(len(p.links) for p in pages.values())
    print(f"{len(pages)} pages, {links} links, {len(found)} faults")
    return 1 if found or not links else 0


if __name__ == "__main__":
    sys.exit(main())
