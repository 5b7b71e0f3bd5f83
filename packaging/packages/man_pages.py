#!/usr/bin/python3
"""Manual pages out of what the program says of itself: man_pages.py PROGRAM VERSION OUT. PROGRAM (bin/dpi) is asked for --help, and so is
each of its commands; OUT gets dpi.1 and dpi-<command>.1. Nothing of a page is written here but its headings, so that none can differ
from the program. Dates are SOURCE_DATE_EPOCH (default: 2026-01-01)."""

import os
import pathlib
import re
import subprocess
import sys
import time

HEADING = re.compile(r"^(Positionals|Options|Subcommands|Examples?):$")
EXIT_STATUS = "Exit status: "
ENTRY = re.compile(r"^  (\S.*?)(?:  +(.*))?$")
LISTS = ("POSITIONALS", "OPTIONS", "SUBCOMMANDS")
ORDER = (*LISTS, "EXIT STATUS", "EXAMPLES")


def ask(*command):
    done = subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    return done.stdout.rstrip().split("\n")


def parse(lines):
    """{section: lines}; the first two lines are the program's one sentence and its usage. A list ends at an empty line."""
    about, usage = lines[0], lines[1]
    assert usage.startswith("Usage: "), usage
    sections, current = {"NAME": [about], "SYNOPSIS": [usage.removeprefix("Usage: ")], "DESCRIPTION": []}, "DESCRIPTION"
    for line in lines[2:]:
        heading = HEADING.match(line)
        if heading:
            current = heading.group(1).upper().rstrip("S") + "S"
            continue
        if line.startswith(EXIT_STATUS):
            current, line = "EXIT STATUS", line.removeprefix(EXIT_STATUS)
        elif line and not line.startswith(" ") and current != "EXIT STATUS":
            current = "DESCRIPTION"
        sections.setdefault(current, []).append(line)
    return sections


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def entries(lines):
    """(term, text) of a list in two columns; a long term stands on a line of its own."""
    found = []
    for line in lines:
        match = ENTRY.match(line)
        if match:
            found.append((match.group(1), match.group(2) or ""))
        elif line.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}".strip())
    return found


def body(section, lines):
    if section == "EXAMPLES":
        return [".nf", *(escape(line.removeprefix("  ")) for line in lines if line.strip()), ".fi"]
    if section in LISTS:
        return [part for term, text in entries(lines) for part in (".TP", f".B {escape(term)}", escape(text))]
    text = re.sub(r"\n{2,}", "\n\n", "\n".join(lines).strip("\n"))
    return [escape(line) if line else ".PP" for line in text.split("\n")]


def page(name, version, sections, others):
    date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "1767225600"))))
    out = [f'.TH {escape(name).upper()} 1 {date} "dpi {version}" "DPIFrame SDK"', ".SH NAME", f"{escape(name)} \\- {escape(sections['NAME'][0])}",
           ".SH SYNOPSIS", escape(sections["SYNOPSIS"][0])]
    description = sections["DESCRIPTION"]
    out += [".SH DESCRIPTION", *body("DESCRIPTION", description if any(description) else sections["NAME"])]
    for section in ORDER:
        if section in sections:
            out += [f".SH {section}", *body(section, sections[section])]
    out += [".SH SEE ALSO", *(f".BR {escape(other)} (1)," for other in others[:-1]), f".BR {escape(others[-1])} (1)"]
    return "\n".join(out) + "\n"


def main(program, version, out):
    out = pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    top = parse(ask(program))
    commands = [term for term, _ in entries(top["SUBCOMMANDS"])]
    (out / "dpi.1").write_text(page("dpi", version, top, [f"dpi-{command}" for command in commands]))
    for command in commands:
        (out / f"dpi-{command}.1").write_text(page(f"dpi-{command}", version, parse(ask(program, command)), ["dpi"]))


main(*sys.argv[1:])
