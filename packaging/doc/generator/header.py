"""What the text of the headers says beyond its declarations: statuses with their meaning, and names."""

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
    """All headers as one text: what the others declare behind what dpi.h does, and what each says at its head above that."""
    text = (folder / "dpi.h").read_text(encoding="utf-8")
    for header in sorted(folder.glob("*.h")):
        if header.name == "dpi.h":
            continue
        more = header.read_text(encoding="utf-8")
        about = more[:more.index("#ifndef DPI_")]
        declared = more[more.index('extern "C" {\n#endif\n') + len('extern "C" {\n#endif\n'):more.index(END)]
        section, declarations = declared.strip().split("\n", 1)
        text = text.replace(END, f"\n{section}\n{about}{declarations}\n{END}")
    return text


def statuses(header):
    return [Status(name, int(number), text or "success") for name, number, text in STATUS.findall(header)]


def names(header):
    """Every name that the header declares: functions, types, constants, and members of structs."""
    code = re.sub(r"/\*.*?\*/", " ", header, flags=re.DOTALL)
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", code)) - {"DPI_H"}


def comment_names(header):
    return set(re.findall(r"\b(?:dpi_|DPI_)\w+", header))
