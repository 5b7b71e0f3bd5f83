#!/usr/bin/env python3
"""Makes the site; packaging/doc/build.sh calls it. A page is Markdown of the tree, or made from a source of the tree: nothing is
written twice. Whatever names a file, a function, an option or a page that is not there ends the build."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
DOC = HERE.parent
ROOT = DOC.parents[1]
sys.path.insert(0, str(HERE))
import c_api  # noqa: E402
import header as dpi_header  # noqa: E402
import options as dpi_options  # noqa: E402
import reference  # noqa: E402
import render  # noqa: E402
import search  # noqa: E402

GUIDE = "packaging/doc/guide/"
HEADERS = ROOT / "capi/include/dpi"
JAVA = ROOT / "bindings/java/src/main/java"
PLANS = [("adult_widedeep", "Wide & Deep: one lookup for all tables, the wide part in its scalars", ()),
         ("bank_dcnv2", "DCNv2: the cross network on one stream, the MLP on another", ()),
         ("msweb_deepfm", "DeepFM with a pooled history: FM inside the lookup", ()),
         ("msweb_deepfm", "The same without fusion: the primitives of the bundle one by one", ("--option", "debug.fuse=off", "--fold", "off"))]


class Page:
    def __init__(self, section, source, output, above=None):
        self.section, self.source, self.output, self.above = section, source, output, above
        self.title = self.body = ""
        self.headings = []


def read_contents(path):
    """Sections and their pages. A line is a source, or a source -> the name of its page; `made:` pages have no source. An indented line is a pattern: its
    pages lie below the page above, which lists them; the menu does not."""
    pages, section = [], ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line.startswith("  "):
            above = pages[-1]
            pages += [Page(section, str(p.relative_to(ROOT)), p.stem + ".html", above) for p in sorted(DOC.glob(line.strip()))]
        elif line.strip():
            source, _, output = (part.strip() for part in line.partition("->"))
            source = source if source.startswith("made:") else str((DOC / source).resolve().relative_to(ROOT))
            pages.append(Page(section, source, output or pathlib.Path(source).stem + ".html"))
    return pages


class Site:
    def __init__(self, args):
        self.args, self.out = args, args.out
        self.header = dpi_header.whole(HEADERS)
        self.options = dpi_options.read()
        self.pages = read_contents(DOC / "contents.txt")
        self.version = ".".join(re.search(rf"DPI_VERSION_{part} (\d+)", self.header)[1] for part in ("MAJOR", "MINOR", "PATCH"))

    def build(self):
        header = self.args.scratch / "dpi.h"
        header.write_text(self.header, encoding="utf-8")
        about, groups = c_api.read(header, self.args.scratch)
        self.links = render.Links(ROOT, {p.source: p.output for p in self.pages}, self._anchors(groups),
                                  dpi_header.comment_names(self.header), {o.key for o in self.options})
        self.api = c_api.page(about, groups, self.links.in_text)
        for page in sorted(self.pages, key=lambda p: p.source == "made:index"):  # which lists what the others have
            self._fill(page)
        for page in self.pages:
            if page.source != "made:java":
                (self.out / page.output).write_text(self._whole(page), encoding="utf-8")
        (self.out / "search_index.js").write_text(search.script(self.pages), encoding="utf-8")
        for file in (DOC / "theme").iterdir():
            shutil.copy(file, self.out)
        print(f"{len(self.pages)} pages in {self.out}")

    def _anchors(self, groups):
        """Where each name of the header is told of; errors have a page of their own."""
        anchors = {}
        for _, entries in groups:
            for entry in entries:
                anchors[entry.name] = f"api.html#{entry.name}"
                for name, _, _ in entry.members:
                    if name.startswith("DPI_"):
                        anchors[name] = f"errors.html#{name}" if name.startswith("DPI_E_") else f"api.html#{name}"
        return anchors

    def _fill(self, page):
        if page.source.startswith("made:"):
            made = getattr(self, "_made_" + page.source[5:])()
            page.title = made[0]
            page.body = made[1]
            page.headings = [(2, i, re.sub(r"<.*?>", "", t)) for i, t in re.findall(r'<h2 id="([^"]*)">(.*?)</h2>', made[1])]
            return
        text = (ROOT / page.source).read_text(encoding="utf-8")
        text = re.sub(r"(?m)^\{frame ([\w.]+)\}$", lambda m: f"```text\n{(DOC / 'frames' / m[1]).read_text(encoding='utf-8')}```", text)
        self._from_markdown(page, text, page.source.startswith(GUIDE))

    def _from_markdown(self, page, text, strict):
        body, headings = render.to_html(page.source, text, strict)
        titles = re.findall(r"<h1[^>]*>(.*?)</h1>", body)
        if len(titles) != 1:
            raise render.PageError(f"{page.source}: {len(titles)} titles of the first level")
        page.title = re.sub(r"<.*?>", "", titles[0])
        page.headings = [h for h in headings if h[0] == 2]
        page.body = self.links.of_page(page.source, body, strict)

    def _made_errors(self):
        go = (ROOT / "bindings/go/errors.go").read_text(encoding="utf-8")
        java = (JAVA / "org/dpiframe/DpiException.java").read_text(encoding="utf-8")
        notes = (DOC / "reference/errors.md").read_text(encoding="utf-8")
        text = reference.errors_markdown(self.header, notes, go, java)
        body, _ = render.to_html("packaging/doc/reference/errors.md", text, True)
        body = re.sub(r'<h2 id="[^"]*">(DPI_E_\w+)</h2>', r'<h2 id="\1"><code>\1</code></h2>', body)
        return "Errors", self.links.of_page("packaging/doc/reference/errors.md", body, True)

    def _made_options(self):
        source = "packaging/doc/reference/options.md"
        body, _ = render.to_html(source, reference.options_markdown(self.options, (ROOT / source).read_text(encoding="utf-8")), True)
        return "Options", reference.options_html(self.options, self.links.of_page(source, body, True))

    def _made_api(self):
        return "C API", self.api

    def _made_program(self):
        html, _ = reference.program_html(self.args.program)
        return "The program dpi", "<h1>The program dpi</h1>\n<p>What the program prints about itself.</p>\n" + html

    def _made_plans(self):
        text = (DOC / "reference/plans.md").read_text(encoding="utf-8")
        body, _ = render.to_html("packaging/doc/reference/plans.md", text, True)
        out = [self.links.of_page("packaging/doc/reference/plans.md", body, True)]
        for bundle, caption, arguments in PLANS:
            svg = reference.plan_svg(self.args.program, ROOT / f"weights/demo/{bundle}.h5", arguments)
            command = escape(" ".join(["dpi plan", bundle + ".h5", *arguments, "--dot"]))
            out.append(f'<h2 id="plan-{len(out)}">{escape(caption)}</h2>\n<figure><figcaption><code>{command}</code></figcaption>{svg}</figure>')
        return "Plans", "\n".join(out)

    def _made_index(self):
        """Names and headings of all pages, by the alphabet."""
        places = {name: place for name, place in self.links.anchors.items()}
        places.update({f"option {o.key}": f"options.html#{o.key}" for o in self.options})
        places.update({f"{re.sub('<.*?>', '', t)} ({p.title})": f"{p.output}#{i}" for p in self.pages for _, i, t in p.headings if p.source.startswith(GUIDE)})
        return "Index", reference.index_html(places)

    def _made_search(self):
        return "Search", search.PAGE

    def _made_go(self):
        return "Go API", f"<h1>Go API</h1>\n<p><code>go doc -all dpiframe.org/dpi</code>.</p>\n{reference.go_html(ROOT / 'bindings/go')}"

    def _made_java(self):
        target = self.out / "java"
        style = self.args.scratch / "java.css"
        style.write_text((DOC / "reference/java.css").read_text(encoding="utf-8"), encoding="utf-8")
        # No index, which comes with three libraries for a field to search in.
        # The generated layer below the public classes is made by the build and is not needed: its absence is ignored.
        subprocess.run(["javadoc", "-quiet", "-notimestamp", "-noindex", "--ignore-source-errors", "--no-platform-links", "-Xdoclint:none", "-encoding", "UTF-8", "-sourcepath", JAVA, "-d", target,
                        "-windowtitle", "org.dpiframe", "--add-stylesheet", style, "-top", '<a href="../../index.html">DPIFrame SDK: all documentation</a>',
                        "org.dpiframe"], check=True, capture_output=True)
        return "Java API", ""

    def _whole(self, page):
        contents = ""
        if len(page.headings) > 3 and page.source not in ("made:api", "made:index", "made:search"):
            items = "".join(f'<li><a href="#{i}">{t}</a></li>' for _, i, t in page.headings)
            contents = f'<div class="contents"><ul>{items}</ul></div>'
        body = page.body.replace("</h1>", "</h1>\n" + contents, 1)
        return WHOLE.format(title=page.title, nav=self._nav(page), body=body, version=self.version, source=_source(page), turn=self._turn(page))

    def _turn(self, page):
        """Links to the pages before and behind, in the order of contents.txt."""
        at = self.pages.index(page)
        before, behind = self.pages[at - 1] if at else None, self.pages[at + 1] if at + 1 < len(self.pages) else None
        link = lambda to, rel, what: f'<a rel="{rel}" href="{to.output}"><span>{what}</span> {to.title}</a>' if to else "<span></span>"
        return link(before, "prev", "Previous") + link(behind, "next", "Next")

    def _nav(self, page):
        out, section = [], None
        for other in (p for p in self.pages if p.above is None):
            if other.section != section:
                out.append(f"{'</ul>' if section else ''}<h2>{other.section}</h2><ul>")
                section = other.section
            current = ' aria-current="page"' if other in (page, page.above) else ""
            out.append(f'<li><a href="{other.output}"{current}>{other.title}</a></li>')
        return "".join(out) + "</ul>"


def _source(page):
    made = {"made:errors": "dpi.h and reference/errors.md", "made:options": "options.def and reference/options.md", "made:api": "the headers `dpi/*.h`", "made:go": "bindings/go",
            "made:plans": "dpi plan", "made:program": "dpi --help", "made:index": "all pages", "made:search": "all pages"}
    return f"Made from {made[page.source]}." if page.source in made else f"Source: {page.source}"


WHOLE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - DPIFrame SDK</title>
<link rel="stylesheet" href="style.css">
</head>
<body>
<a class="skip" href="#main">To the text</a>
<header><a href="index.html">DPIFrame SDK</a><span>version {version}</span>
<form action="search.html" role="search"><input type="search" name="q" placeholder="Search" aria-label="Search"></form></header>
<div class="page">
<nav class="site" aria-label="Pages"><input type="checkbox" id="menu"><label for="menu">All pages</label><div>{nav}</div></nav>
<main id="main">
{body}
<nav class="turn" aria-label="Previous and next page">{turn}</nav>
<footer>{source}</footer>
</main>
</div>
</body>
</html>
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--scratch", type=pathlib.Path, required=True)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the program dpi")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    args.scratch.mkdir(parents=True, exist_ok=True)
    try:
        Site(args).build()
    except (ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"build_site: {error}")


if __name__ == "__main__":
    main()
