#!/usr/bin/env python3
"""Search, next and previous of a built site: the index has every heading of every page with its text, each entry leads somewhere, questions find their
page (search.js itself, run by node), and the links to the next page go through all pages once.

    search_test.py SITE"""

import json
import pathlib
import re
import subprocess
import sys

# (what somebody types, a page that has to be among the first three)
QUESTIONS = [("kubernetes", "kubernetes.html"), ("memory_limit", "options.html"), ("DPI_E_FORKED", "errors.html"), ("first model", "first_model.html"), ("rollback", "api.html"), ("new versions", "reload.html"),
             ("dpi_rows_predict", "api.html"), ("torchrec", "migrate.html"), ("cores requests per second", "capacity.html"), ("KAFKA deltas", "reload.html"), ("fork", "deployment.html")]
NOTHING = ["", "   ", "qqzzqq", "kubernetes qqzzqq", "<b>qqzzqq</b>"]


def ranked(site, questions):
    """Addresses of what search.js finds, by question."""
    program = "".join((site / name).read_text(encoding="utf-8") for name in ("search_index.js", "search.js"))
    program += f"\nconsole.log(JSON.stringify({json.dumps(questions)}.map((q) => rank(q, INDEX).map((entry) => entry[2]))));"
    return json.loads(subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True).stdout)


def index_of(site):
    text = (site / "search_index.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("const INDEX = ").rstrip(";\n"))


def index_faults(site, index):
    """Headings that the index lacks, entries that lead nowhere, sections whose words are not there."""
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted(site.glob("*.html"))}
    wanted = {f"{name}#{anchor}" for name, text in pages.items() for anchor in re.findall(r'<(?:h[23]|tr) id="([^"]+)"', text)} | set(pages)
    told = {where for _, _, where, _ in index}
    found = [f"search: no entry for {where}" for where in sorted(wanted - told)]
    found += [f"search: {where} leads nowhere" for where in sorted(told - wanted - {"java/index.html"})]
    return found + [f"search: {where} has no text" for _, heading, where, text in index if not heading and not text and where != "java/index.html"]


def question_faults(site):
    found = []
    for (question, page), places in zip(QUESTIONS, ranked(site, [q for q, _ in QUESTIONS])):
        if page not in [place.split("#")[0] for place in places[:3]]:
            found.append(f"search: '{question}' finds {places[:3]}, not {page}")
    return found + [f"search: '{q}' finds {places[:3]}" for q, places in zip(NOTHING, ranked(site, NOTHING)) if places]


def chain_faults(site):
    """From the first page by rel=next to the last, and back by rel=prev."""
    def follow(name, rel):
        seen = []
        while name is not None and name not in seen:
            seen.append(name)
            link = re.search(rf'<a rel="{rel}" href="([^"]+)"', (site / name).read_text(encoding="utf-8"))
            name = link[1] if link else None
            if name == "java/index.html":  # javadoc's own page, which has neither
                pages = [line for line in (re.findall(r'<li><a href="([^"]+)"', (site / "index.html").read_text(encoding="utf-8")))]
                name = pages[pages.index(name) + (1 if rel == "next" else -1)]
        return seen

    forth = follow("index.html", "next")
    missing = {path.name for path in site.glob("*.html")} - set(forth)
    found = [f"next: {name} is never reached" for name in sorted(missing)]
    return found + ([] if follow(forth[-1], "prev") == forth[::-1] else ["previous does not go back as next goes forth"])


def self_test(site):
    """What is planted must be found."""
    index = index_of(site)
    first = next(i for i, entry in enumerate(index) if "#" in entry[2])
    planted = [(index_faults(site, index[:first] + index[first + 1:]), "no entry for"), (index_faults(site, [*index, ["a", "b", "gone.html#b", "c"]]), "leads nowhere"),
               (index_faults(site, [*index, ["a", "", "gone.html", ""]]), "has no text")]
    return [f"not found: {expected}" for found, expected in planted if not any(expected in text for text in found)]


def main():
    site = pathlib.Path(sys.argv[1])
    index = index_of(site)
    found = index_faults(site, index) + question_faults(site) + chain_faults(site) + self_test(site)
    print("\n".join([*found, f"{len(index)} sections, {len(QUESTIONS) + len(NOTHING)} questions, {len(found)} faults"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
