"""The reference of the C API: Doxygen reads the headers, as one text, through doxygen_filter.py, and its XML is laid out here as one page of this site."""

import dataclasses
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as tree
from html import escape

HERE = pathlib.Path(__file__).resolve().parent
SETTINGS = """\
INPUT = {header}
OUTPUT_DIRECTORY = {output}
FILTER_PATTERNS = *.h="{python} {filter}"
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
OPTIMIZE_OUTPUT_FOR_C = YES
TYPEDEF_HIDES_STRUCT = YES
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = DPI_API= DPI_NODISCARD= DPI_NOEXCEPT= __GNUC__
MARKDOWN_SUPPORT = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_AS_ERROR = YES
CREATE_SUBDIRS = NO
"""
ITEM = re.compile(r" *(?:-|\d+\.) ")
HIDDEN = {"DPI_H", "DPI_API", "DPI_NODISCARD", "DPI_NOEXCEPT"}


@dataclasses.dataclass
class Entry:
    name: str
    line: int
    declaration: str
    text: str
    members: list  # (name, declaration, text) of a struct or an enum


def read(header, scratch):
    """[(group, [Entry])] in the header's order, and the text at its head."""
    output = pathlib.Path(scratch, "doxygen")
    output.mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.format(header=header, output=output, python=sys.executable, filter=HERE / "doxygen_filter.py")
    subprocess.run(["doxygen", "-"], input=settings, text=True, check=True)
    xml = output / "xml"
    groups = [tree.parse(path).getroot().find("compounddef") for path in xml.glob("group__*.xml")]
    read_groups = [(group.findtext("title"), _entries(group, xml)) for group in groups]
    about = tree.parse(xml / "dpi_8h.xml").getroot().find("compounddef")
    return _text(about.find("detaileddescription")), sorted(read_groups, key=lambda g: g[1][0].line)


def _entries(group, xml):
    entries = [_member(m) for m in group.iter("memberdef")]
    entries += [_struct(tree.parse(xml / f"{inner.get('refid')}.xml").getroot().find("compounddef")) for inner in group.iter("innerclass")]
    structs = {e.name for e in entries if e.members}
    entries = [e for e in entries if e.name not in HIDDEN and (e.members or e.name not in structs)]
    return sorted(entries, key=lambda e: e.line)


def _text(node):
    return "\n".join(v.text.strip("\n").rstrip() for v in node.iter("verbatim")) if node is not None else ""


def _both(member):
    return "\n".join(filter(None, (_text(member.find("briefdescription")), _text(member.find("detaileddescription")))))


def _member(member):
    kind, name = member.get("kind"), member.findtext("name")
    line = int(member.find("location").get("line"))
    if kind == "enum":
        values = [(v.findtext("name"), f"{v.findtext('name')} {v.findtext('initializer') or ''}".strip(), _both(v)) for v in member.iter("enumvalue")]
        return Entry(values[0][0], line, "enum", _both(member), values)
    if kind == "define":
        value = "".join(member.find("initializer").itertext()) if member.find("initializer") is not None else ""
        return Entry(name, line, f"#define {name} {value}".strip(), _both(member), [])
    return Entry(name, line, _tidy(member.findtext("definition") + (member.findtext("argsstring") or "")), _both(member), [])


def _tidy(declaration):
    """Stars as the header has them; a function pointer's definition holds its arguments already."""
    if "(*" in declaration:
        declaration = re.sub(r"\)\)\(.*", ")", declaration).replace("(* ", "(*").replace(") (", ")(")
    declaration = re.sub(r"\s+(\*+)\s*", r"\1 ", declaration)
    return re.sub(r"\s+", " ", declaration).replace("void(", "void (").strip() + ";"


def _struct(compound):
    name = compound.findtext("compoundname")
    fields = []
    for member in compound.iter("memberdef"):
        kind = "".join(member.find("type").itertext()).replace(" *", "*")
        fields.append((member.findtext("name"), f"{kind} {member.findtext('name')}{member.findtext('argsstring') or ''}", _both(member)))
    return Entry(name, int(compound.find("location").get("line")), f"struct {name}", _both(compound), fields or [("", "(opaque)", "")])


def page(about, groups, link):
    """The page's body; `link` makes links of names in a text that is escaped already."""
    out = ["<h1>C API</h1>", '<p>What <code>dpi/dpi.h</code> and the headers beside it say, declaration by declaration.</p>', _comment(about, link), "<h2>Contents</h2>", "<ul>"]
    for name, entries in groups:
        links = " &middot; ".join(f'<a href="#{e.name}"><code>{e.name}</code></a>' for e in entries)
        out.append(f'<li><a href="#group-{_slug(name)}">{escape(name)}</a>: {links}</li>')
    out.append("</ul>")
    for name, entries in groups:
        out.append(f'<h2 id="group-{_slug(name)}">{escape(name)}</h2>')
        out += [_entry(entry, link) for entry in entries]
    return "\n".join(out)


def _slug(name):
    return re.sub(r"\W", "-", name)


def _comment(text, link):
    """A comment as paragraphs and lists; what is indented, such as a list in columns or an example, stays as it is."""
    out, lines = [], text.split("\n")
    while lines:
        kind = _kind(lines[0])
        taken = 1
        while taken < len(lines) and _goes_on(kind, lines[taken - 1], lines[taken]):
            taken += 1
        out.append(_part(kind, lines[:taken], link))
        lines = lines[taken:]
    return re.sub(r"</(ul|ol)>\s*<\1>", "", "\n".join(filter(None, out)))


def _kind(line):
    if not line.strip():
        return "blank"
    if ITEM.match(line):
        return "item"
    return "pre" if line.startswith("  ") else "text"


def _goes_on(kind, last, line):
    """Whether a line belongs to the part before it. A line that ends early with a full stop ends its paragraph."""
    if kind in ("pre", "blank"):
        return _kind(line) == kind
    if kind == "item":
        return line.startswith("   ") and _kind(line) != "item"
    return _kind(line) == "text" and not (last.rstrip().endswith((".", ":")) and len(last) < 80)


def _part(kind, lines, link):
    text = "\n".join(lines) if kind == "pre" else " ".join(line.strip() for line in lines)
    text = re.sub(r"`([\w.]+)`", r"<code>\1</code>", link(escape(text)))
    if kind == "pre":
        return f'<pre class="columns" tabindex="0">{text}</pre>'
    if kind == "item":
        kind = "ol" if text[0].isdigit() else "ul"
        return f"<{kind}><li>{text.split(' ', 1)[1]}</li></{kind}>"
    return f"<p>{text}</p>" if kind == "text" else ""


def _entry(entry, link):
    title = entry.name if entry.declaration != "enum" else f"{entry.name} ..."
    html = f'<h3 id="{entry.name}"><code>{title}</code></h3>\n'
    if not entry.members or entry.members[0][0] == "":
        html += f'<pre class="declaration">{link(escape(_wrapped(entry.declaration)), entry.name)}</pre>\n'
    html += _comment(entry.text, link)
    return html + (_members(entry, link) if entry.members and entry.members[0][0] else "")


def _members(entry, link):
    rows = []
    for name, declaration, text in entry.members:
        anchor = f' id="{name}"' if name.startswith("DPI_") and name != entry.name else ""
        rows.append(f'<tr><td{anchor}><code>{link(escape(declaration), name)}</code></td><td>{link(escape(text))}</td></tr>')
    return '<table class="members">\n' + "\n".join(rows) + "\n</table>\n"


def _wrapped(declaration, width=100):
    """A long declaration, broken between arguments."""
    if len(declaration) <= width or "(" not in declaration:
        return declaration
    head, _, rest = declaration.partition("(")
    indent = " " * (len(head) + 1)
    lines, current = [], head + "("
    for argument in rest.split(", "):
        piece = argument if argument.endswith(";") else argument + ", "
        if len(current) + len(piece) > width and not current.endswith("("):
            lines.append(current.rstrip())
            current = indent
        current += piece
    return "\n".join(lines + [current])
