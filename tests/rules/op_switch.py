"""No `default:` in a switch over OpKind: it takes in, without a word, the kinds that are added later. What differs by kind is
a column of sdk/src/ops/table.cpp or of a device's own table; a pass that asks about a few kinds compares."""

import re

from common import CXX, files, read, strip_cxx

SWITCH = re.compile(r"\bswitch\s*\(")
KIND = re.compile(r"\bcase\s+(?:\w+::)*OpKind::")
USING = re.compile(r"\bcase\s+k(?:Linear|Dense|Embed|Tail|Unary|MultiLookup)\b")
DEFAULT = re.compile(r"\bdefault\s*:")


def check(root):
    found = []
    for path in files(root, ("sdk/", "kernels/", "capi/", "tests/", "samples/", "bindings/"), CXX):
        text = strip_cxx(read(root, path))
        for match in SWITCH.finditer(text):
            body = own_labels(text, match.end())
            if (KIND.search(body) or USING.search(body)) and DEFAULT.search(body):
                line = text.count("\n", 0, match.start()) + 1
                found.append(f"{path}:{line}: a switch over OpKind has a default")
    return found


def own_labels(text, at):
    """The body of the switch whose parenthesis opened before `at`, without the bodies of switches inside it."""
    begin = text.find("{", closing(text, at, "()"))
    end = closing(text, begin + 1, "{}")
    body = text[begin + 1:end]
    while inner := SWITCH.search(body):
        first = body.find("{", closing(body, inner.end(), "()"))
        body = body[:inner.start()] + body[closing(body, first + 1, "{}") + 1:]
    return body


def closing(text, at, pair):
    """Position of the bracket that closes the one before `at`."""
    depth = 1
    for i in range(at, len(text)):
        depth += (text[i] == pair[0]) - (text[i] == pair[1])
        if depth == 0:
            return i
    return len(text) - 1


PLANTED = [
    ("sdk/src/plan/a.cpp", "int f(OpKind k) { switch (k) { case OpKind::kFm: return 1; default: return 0; } }\n", "has a default"),
    ("tests/plan/a.cpp", "void f(K k) {\n  switch (g(k)) {\n    case kernels::OpKind::kFm: { h(); break; }\n    default :\n      x();\n  }\n}\n",
     "a.cpp:2: a switch"),
    ("kernels/ref/a.cpp", "int f(K k) { switch (k) { case OpKind::kFm: switch (j) { default: return 1; } default: return 0; } }\n",
     "has a default"),
    ("sdk/src/plan/b.cpp", "int f(K k) { using enum OpKind; switch (k) { case kDense: return 1; default: return 0; } }\n", "has a default"),
]
CLEAN = [
    ("sdk/src/plan/a.cpp", "int f(UnaryKind k) { switch (k) { case UnaryKind::kRelu: return 1; default: return 0; } }\n"
     "int g(OpKind k) { switch (k) { case OpKind::kFm: switch (h()) { default: return 2; } } return 0; }  // default: none\n"),
]
