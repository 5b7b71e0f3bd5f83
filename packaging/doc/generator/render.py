"""Markdown to the body of a page: blocks with their marks, links between pages, names of the C API as links."""

import posixpath
import re
from html import escape, unescape

import markdown
from markdown.extensions.tables import TableExtension
from markdown.extensions.toc import TocExtension
from markdown.preprocessors import Preprocessor
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

import blocks

LEXERS = {"sh": "bash", "text": "text", "csv": "text", "dockerfile": "docker"}
NAME = re.compile(r"\b(?:dpi_|DPI_)\w+")
NOT_OF_THE_HEADER = re.compile(r"dpi_export|dpi_jni|dpi_cuda|dpi_\w+_total|dpi_\w+_seconds|dpi_(?:call|chunk)_rows|dpi_http_\w+|dpi_build_info|dpi_parked_now|dpi_endpoint_(?:refused|folder_unreadable|forecast_bytes)"
                               r"|dpi_store_node_open|dpi_(?:model|endpoint)_held_bytes|dpi_model_(?:host_bytes|device_bytes|version|since_seconds)|DPI_(?:BACKEND_DIR|JAR|CUDA|GO)")


class PageError(ValueError):
    """A page that names what is not there."""


class _Fences(Preprocessor):
    """Takes the fenced blocks out before Markdown sees them."""

    def __init__(self, md, page, strict):
        super().__init__(md)
        self.page, self.strict = page, strict

    def run(self, lines):
        text = "\n".join(lines) + "\n"
        found = iter(blocks.blocks_of(self.page, text, self.strict))
        put = lambda match: f"\n{match['indent']}{self.md.htmlStash.store(block_html(next(found)))}\n"
        return blocks.FENCE.sub(put, text).split("\n")


class _Lists(Preprocessor):
    """A list or a table may follow a paragraph at once, as it may elsewhere."""

    ITEM = re.compile(r"^(?:[-*]|\d+\.) ")

    def run(self, lines):
        out = []
        for line in lines:
            if self.ITEM.match(line) and out and out[-1].strip() and not self.ITEM.match(out[-1]) and not out[-1].startswith(" "):
                out.append("")
            if line.startswith("|") and out and out[-1].strip() and not out[-1].startswith("|"):
                out.append("")
            out.append(line)
        return out


def block_html(block):
    lexer = get_lexer_by_name(LEXERS.get(block.language, block.language), stripnl=False) if block.language else get_lexer_by_name("text")
    code = highlight(block.body, lexer, HtmlFormatter(nowrap=True)).rstrip("\n")
    label = {"file": block.value, "in": f"a fragment: the frame around it, {block.value}, is at the end of the page", "output": "prints", "not-run": f"not run by the tests: {block.value}"}.get(block.mark, "")
    caption = f'<div class="label">{escape(label)}</div>' if label else ""
    return f'<div class="block {block.mark or "plain"}">{caption}<pre tabindex="0"><code>{code}</code></pre></div>'


def to_html(page, text, strict):
    """(body, [(level, id, title)]) of a page."""
    md = markdown.Markdown(extensions=[TableExtension(), TocExtension(toc_depth="2-3"), "sane_lists"], tab_length=2, output_format="html")
    md.preprocessors.register(_Fences(md, page, strict), "dpi_fences", 28)
    md.preprocessors.register(_Lists(md), "dpi_lists", 26)
    body = md.convert(text)
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    headings = [(t["level"], t["id"], t["name"]) for t in _flat(md.toc_tokens)]
    return body, headings


def _flat(tokens):
    for token in tokens:
        yield token
        yield from _flat(token["children"])


class Links:
    """Where names and paths lead. `pages`: {path in the repository: file of the site}, `anchors`: {name of dpi.h: file#anchor}."""

    def __init__(self, root, pages, anchors, known, option_keys):
        self.root, self.pages, self.anchors, self.known, self.option_keys = root, pages, anchors, known, option_keys

    def of_page(self, source, html, strict):
        html = re.sub(r'<p><img alt="([^"]*)" src="([^"/]*\.svg)"\s*/?></p>', lambda m: self._drawing(source, m[2], m[1]), html)
        html = re.sub(r'<a href="([^"]*)">(.*?)</a>', lambda m: self._link(source, m[1], m[2], strict), html, flags=re.DOTALL)
        parts = re.split(r"(<a .*?</a>|<pre.*?</pre>|<h\d.*?</h\d>)", html, flags=re.DOTALL)
        return "".join(part if n % 2 else self._spans(source, part, strict) for n, part in enumerate(parts))

    def _drawing(self, source, name, caption):
        """A drawing beside the page becomes part of it, so that it has the page's colours."""
        path = self.root / posixpath.dirname(source) / name
        if not path.is_file():
            raise PageError(f"{source}: a drawing {name}, which is not there")
        return f"<figure>{path.read_text(encoding='utf-8').strip()}<figcaption>{caption}</figcaption></figure>"

    def _link(self, source, href, text, strict):
        href = unescape(href)
        if re.match(r"https?:", href) or href.startswith("#") or href.split("#")[0].endswith(".html"):
            return f'<a href="{escape(href)}">{text}</a>'
        path, _, anchor = href.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path not in self.pages and not path.startswith("..") and (self.root / path / "README.md").is_file():
            path = posixpath.join(path, "README.md")
        if path in self.pages:
            return f'<a href="{self.pages[path]}{"#" + anchor if anchor else ""}">{text}</a>'
        if strict or not (self.root / path).exists():
            raise PageError(f"{source}: a link to {href}, which is no page of the site")
        return f"<em>{text}</em>"  # a file of the sources

    def _spans(self, source, html, strict):
        return re.sub(r"<code>([^<]*)</code>", lambda m: self._span(source, m[1], strict), html)

    def _span(self, source, text, strict):
        text = text.replace("\n", " ")
        if text.endswith(".md"):
            return self._file(source, text)
        option = re.fullmatch(r"([a-z_.]+)=[\w*|., +-]*", text)
        if option and option[1] in self.option_keys:
            return f'<a href="options.html#{option[1]}"><code>{text}</code></a>'
        name = re.fullmatch(r"((?:dpi_|DPI_)\w+)(?:\(\)|\.\w+)?", text)
        if not name:
            return f"<code>{text}</code>"
        if name[1] in self.anchors:
            return f'<a href="{self.anchors[name[1]]}"><code>{text}</code></a>'
        if strict and name[1] not in self.known and not NOT_OF_THE_HEADER.fullmatch(name[1]):
            raise PageError(f"{source}: {text} is not in dpi.h")
        return f"<code>{text}</code>"

    def _file(self, source, text):
        """The name of a document that is a page, relative to the one that names it or to the top of the tree."""
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(source), text))
        target = next((self.pages[path] for path in (beside, text) if path in self.pages), None)
        return f'<a href="{target}"><code>{text}</code></a>' if target else f"<code>{text}</code>"

    def in_text(self, escaped, own=""):
        """Names in a text as links, but for the name that the text is about."""
        to = lambda m: m[0] if m[0] == own or m[0] not in self.anchors else f'<a href="{self.anchors[m[0]]}">{m[0]}</a>'
        return NAME.sub(to, escaped)
