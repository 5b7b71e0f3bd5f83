"""What the text of dpi.h and endpoint.h says beyond its declarations: statuses with their meaning, and the options."""

import dataclasses
import re

STATUS = re.compile(r"^  (DPI_(?:OK|E_\w+)) = (\d+),?\s*(?:/\* (.*?)\s*\*/)?$", re.MULTILINE)
OPTION_HEAD = "dpi_options_set refuses unknown keys"
MEASURING = "For measuring and for finding faults"


@dataclasses.dataclass(frozen=True)
class Status:
    name: str
    number: int
    meaning: str


@dataclasses.dataclass
class Option:
    key: str
    values: str
    default: str
    text: str
    measuring: bool


END = "\n#if defined(__cplusplus)\n}\n"


def whole(folder):
    """Both headers as one text: what endpoint.h declares behind what dpi.h does, and what it says at its head above that."""
    dpi, more = ((folder / name).read_text(encoding="utf-8") for name in ("dpi.h", "endpoint.h"))
    about = more[:more.index("#ifndef DPI_ENDPOINT_H")]
    declared = more[more.index('extern "C" {\n#endif\n') + len('extern "C" {\n#endif\n'):more.index(END)]
    section, declarations = declared.strip().split("\n", 1)
    return dpi.replace(END, f"\n{section}\n{about}{declarations}\n{END}")


def statuses(header):
    return [Status(name, int(number), text or "success") for name, number, text in STATUS.findall(header)]


def options(header):
    """The list above dpi_options: key, values, default and text stand in columns, two blanks apart."""
    start = header.index(OPTION_HEAD)
    lines = header[start:header.index("*/", start)].split("\n")[2:]
    found, measuring = [], False
    for line in lines:
        line = re.sub(r"^ \*\s?", "", line).rstrip()
        if line.strip().startswith(MEASURING):
            measuring = True
        elif re.match(r"  [a-z]", line):
            found.append(_option(line.strip(), measuring))
        elif line.startswith(" " * 20) and found:
            found[-1].text += " " + line.strip()
    return found


def _option(line, measuring):
    fields = re.split(r"\s{2,}", line, maxsplit=3)
    key, values, default, text = fields + [""] * (4 - len(fields))
    if not text and ";" in default:
        default, text = (part.strip() for part in default.split(";", 1))
    return Option(key, values, default, text, measuring)


def names(header):
    """Every name that the header declares: functions, types, constants, and members of structs."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", code)) - {"DPI_H"}


def comment_names(header):
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", header))
