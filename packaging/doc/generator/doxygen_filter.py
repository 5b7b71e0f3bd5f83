#!/usr/bin/env python3
"""dpi.h as Doxygen wants it: `doxygen_filter.py dpi.h`. The header's comments are plain C, because people read it too: those above a
declaration become its text, those behind one belong to it, and each `---- name ----` line begins a group. Texts go through
verbatim, so that the columns of a list stay columns and nothing of it is taken for a command."""

import re
import sys

SECTION = re.compile(r"^/\* -{4,} (.+?) -{4,} \*/$", re.MULTILINE)
ABOVE = re.compile(r"^/\*(?! -{4})(.*?)\*/\n", re.MULTILINE | re.DOTALL)
BEHIND = re.compile(r"^(?P<code>[^\n/][^\n]*?[;,{}]|[^\n/]*\b\w+(?: = \d+)?|#define[^\n]*?) *(?P<first>/\*.*?\*/)(?P<rest>(?:\n {8,}/\*.*?\*/)*)$", re.MULTILINE)


def text_of(comment):
    """A comment's text without its stars."""
    inside = re.sub(r"^/\*|\*/$", "", comment.strip())
    return "\n".join(re.sub(r"^ ?\*? ?", "", line) if n else line.strip() for n, line in enumerate(inside.split("\n"))).strip("\n")


def special(comment, opener="/**"):
    return f"{opener} @verbatim\n{text_of(comment).replace('*/', '* /')}\n@endverbatim */"


def convert(header):
    head, _, rest = header.partition("#ifndef DPI_H")
    groups = SECTION.findall(rest)
    rest = BEHIND.sub(_behind, rest)
    rest = ABOVE.sub(lambda m: special(m.group(0)) + "\n", rest)
    rest = rest.replace("\n@endverbatim */\n/** @verbatim\n", "\n")  # two comments above one declaration
    for name in groups:
        group = "g_" + re.sub(r"\W", "_", name)
        closing = "/** @} */\n" if name != groups[0] else ""
        rest = re.sub(rf"/\* -+ {re.escape(name)} -+ \*/", lambda _: f"{closing}/** @defgroup {group} {name}\n@{{ */", rest)
    rest = rest.replace("\n#if defined(__cplusplus)\n}\n", "\n/** @} */\n#if defined(__cplusplus)\n}\n")
    return special(head.strip(), "/** @file dpi.h\n") + "\n#ifndef DPI_H" + rest


def _behind(match):
    comment = text_of(match["first"])
    for more in re.findall(r"/\*(.*?)\*/", match["rest"]):
        comment += "\n" + more.strip()
    return f"{match['code']} /**< @verbatim\n{comment}\n@endverbatim */"


if __name__ == "__main__":
    sys.stdout.write(convert(open(sys.argv[1], encoding="utf-8").read()))
