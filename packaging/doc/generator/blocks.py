"""Fenced blocks of a Markdown page, and what the mark behind a block's language promises.

    ```sh run                   bash runs it, in the page's folder, after the blocks before it
    ```python run               python3 runs it there
    ```c file=score.c           it becomes that file; a later `sh run` block of the page names it
    ```c in=call.c              it stands in frames/call.c in the place of the line @@; that program is built and run
    ```text output              what the block before it printed; ... stands for any text, a line of ... for any lines
    ```sh not-run="why"         shown, never run; the reason is printed beside it
    ```text                     no program: text, json, csv, diff, ini, yaml, dockerfile

A block in a language that can be run needs a mark, and a language that is not listed here is an error: nothing is left out silently."""

import dataclasses
import re
import shlex

RUNNABLE = ("sh", "python", "c", "cpp", "java", "go", "cmake")
PLAIN = ("text", "json", "csv", "diff", "ini", "yaml", "dockerfile")
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ \t]*$", re.MULTILINE | re.DOTALL)


class BlockError(ValueError):
    """A block that promises something it cannot, with its place."""


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    line: int
    language: str
    mark: str  # run, file, in, output, not-run, or "" for plain text
    value: str  # of file=, in=, not-run=
    body: str

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of(page, text, strict=True):
    """The blocks of a page in order; not strict: of a page whose marks are not ours, such as a README."""
    found = [_block(page, text, match, strict) for match in FENCE.finditer(text)]
    if strict:
        _check_order(found)
    return found


def _block(page, text, match, strict):
    line = text.count("\n", 0, match.start()) + 1
    indent = match["indent"]
    body = re.sub(f"(?m)^{indent}", "", match["body"]) if indent else match["body"]
    language, _, rest = match["info"].strip().partition(" ")
    if not strict:
        return Block(page, line, language or "text", "", "", body)
    mark, value = _mark(f"{page}:{line}", rest)
    _check_mark(f"{page}:{line}", language, mark, value)
    return Block(page, line, language, mark, value, body)


def _mark(place, rest):
    words = shlex.split(rest)
    if len(words) > 1:
        raise BlockError(f"{place}: one mark per block, not '{rest}'")
    mark, _, value = (words[0] if words else "").partition("=")
    return mark, value


def _check_mark(place, language, mark, value):
    if language not in RUNNABLE + PLAIN:
        raise BlockError(f"{place}: language '{language}' is not one of {', '.join(RUNNABLE + PLAIN)}")
    if language in RUNNABLE and not mark:
        raise BlockError(f"{place}: a block of {language} needs a mark: run, file=, in= or not-run=\"why\"")
    if mark not in ("", "run", "file", "in", "output", "not-run"):
        raise BlockError(f"{place}: unknown mark '{mark}'")
    if (mark in ("file", "in", "not-run")) != bool(value):
        raise BlockError(f"{place}: mark '{mark}' with value '{value}'")
    if mark == "run" and language not in ("sh", "python"):
        raise BlockError(f"{place}: `run` is for sh and python; use file= and an `sh run` that builds it")


def _check_order(found):
    for at, block in enumerate(found):
        if block.mark == "output" and (at == 0 or found[at - 1].mark not in ("run", "in")):
            raise BlockError(f"{block.place}: output of no program")
        if block.mark == "file" and not any(b.mark == "run" and block.value in b.body for b in found[at + 1:]):
            raise BlockError(f"{block.place}: no later `sh run` block of the page names {block.value}")


def matches(expected, printed):
    """Whether `printed` is `expected`, where ... stands for any text of a line and a line of ... for any lines."""
    pattern = ""
    for line in expected.rstrip("\n").split("\n"):
        if line.strip() == "...":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None
