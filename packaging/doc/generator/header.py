"""What the text of dpi.h and endpoint.h says beyond its declarations: statuses with their meaning, and names."""

import dataclasses
import re

STATUS = re.compile(r"^  (DPI_(?:OK|E_\w+)) = (\d+),?\s*(?:/\* (.*?)\s*\*/)?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Status:
    name: str
    number: int
    meaning: str


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


def names(header):
    """Every name that the header declares: functions, types, constants, and members of structs."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", code)) - {"DPI_H"}


def comment_names(header):
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", header))
