"""Search: an index of every page by its headings, as a script, because a page that is opened from a disk may read no other kind of file."""

import json
import re
from html import unescape

PAGE = """<h1>Search</h1>
<form action="search.html" role="search"><input type="search" name="q" id="q" aria-label="Words to search for"> <button>Search</button></form>
<p id="count" role="status"></p>
<ol id="found"></ol>
<noscript><p>Search needs JavaScript. The <a href="names.html">index</a> lists names and headings.</p></noscript>
<script src="search_index.js"></script>
<script src="search.js"></script>"""

# A row of the options' table has a place of its own, as a heading has.
_HEADING = re.compile(r'<(?:h[23]|tr) id="([^"]*)"[^>]*>(?:<td>)?(.*?)</(?:h[23]|td)>', re.DOTALL)


def entries(page):
    """[[page, heading, where, text]] of a page: one for what stands above its first heading, one for each heading or option."""
    parts = _HEADING.split(page.body)
    sections = [("", "", parts[0]), *zip(parts[1::3], parts[2::3], parts[3::3])]
    return [[_plain(page.title), _plain(heading), page.output + ("#" + anchor if anchor else ""), _plain(body)] for anchor, heading, body in sections]


def _plain(html):
    """The words of HTML; pictures and scripts have none."""
    html = re.sub(r"(?s)<(svg|script|style)\b.*?</\1>", " ", html)
    inline = re.sub(r"</?(?:code|a|span|b|em|strong)\b[^>]*>", "", html)  # these part no words
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", inline))).strip()


def script(pages):
    """The index as a script that search.js reads."""
    found = [entry for page in pages for entry in entries(page)]
    return "const INDEX = [\n" + ",\n".join(json.dumps(entry, ensure_ascii=False).replace("</", "<\\/") for entry in found) + "\n];\n"
