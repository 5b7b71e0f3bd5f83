"""The pages that are made from the header, the bindings' sources and the program: errors, options, plans, Go."""

import re
import subprocess
from html import escape, unescape

import header as dpi_header


IN_SHORT = "What to do with a failed predict"


def errors_markdown(header, notes, go_errors, java_exceptions):
    """The error reference: the header's meaning, then what reference/errors.md knows of causes and cures."""
    head, sections = _sections(notes)
    statuses = dpi_header.statuses(header)
    named = [s.name for s in statuses if s.name != "DPI_OK"]
    if sorted(named) != sorted(sections):
        raise ValueError(f"reference/errors.md and dpi.h differ in: {', '.join(sorted(set(named) ^ set(sections)))}")
    short = head[head.index(IN_SHORT):] if IN_SHORT in head else ""
    missing = [name for name in named if f"`{name}`" not in short]
    if missing:
        raise ValueError(f"reference/errors.md: '{IN_SHORT}' does not name {', '.join(missing)}")
    out = [head, "| code | status | meaning |", "|---|---|---|"]
    out += [f"| {s.number} | [`{s.name}`](#{s.name}) | {_cell(s.meaning)} |" if s.number else f"| 0 | `{s.name}` | {s.meaning} |" for s in statuses]
    for s in statuses[1:]:
        go, java = _go_name(s.name), _java_name(s.name)
        if f"Err{go} " not in go_errors or f"class {java} " not in java_exceptions:
            raise ValueError(f"{s.name}: no Err{go} in Go, or no {java} in Java")
        out.append(f"\n## {s.name}\n\n**{s.number}**: {s.meaning}.\n\nGo: `dpi.Err{go}`; Java: `DpiException.{java}`.\n\n{sections[s.name]}")
    return "\n".join(out)


def _sections(notes, mark="##"):
    head, *rest = re.split(rf"(?m)^{mark} ", notes)
    return head.strip() + "\n", {part.split("\n", 1)[0].strip(): part.split("\n", 1)[1].strip() for part in rest}


def _camel(status):
    return "".join(word.capitalize() for word in status.removeprefix("DPI_E_").split("_"))


def _go_name(status):
    return {"Io": "IO"}.get(_camel(status), _camel(status))


def _java_name(status):
    return {"Device": "DeviceFailure", "Version": "VersionMismatch"}.get(_camel(status), _camel(status))


def _cell(text):
    return text.replace("|", "\\|")


def options_markdown(options, notes):
    """The reference of options: in each group a table of options.def's lines, then what reference/options.md explains. A table stands for itself as a line @@group@@."""
    head, sections = _sections(notes, "###")
    keys = [o.key for o in options]
    if sorted(keys) != sorted(sections):
        raise ValueError(f"reference/options.md and options.def differ in: {', '.join(sorted(set(keys) ^ set(sections)))}")
    out = [head]
    for group in dict.fromkeys(o.group for o in options):
        out.append(f"\n## {group}\n\n@@{group}@@\n")
        out += [f"### {o.key}\n\n`{o.values}`, default `{o.default}`\n\n{sections[o.key]}\n" for o in options if o.group == group]
    return "\n".join(out)


def options_html(options, body):
    """The page of options_markdown with its tables, and each option's key as its place."""
    for o in options:
        body = re.sub(rf'<h3 id="[^"]*">{re.escape(o.key)}</h3>', f'<h3 id="{o.key}"><code>{o.key}</code></h3>', body)
    return re.sub(r"<p>@@(.*?)@@</p>", lambda m: _options_table([o for o in options if o.group == m[1]]), body)


def _options_table(rows):
    out = ['<div class="wide" tabindex="0"><table>', "<thead><tr><th>key</th><th>values</th><th>default</th><th>meaning</th></tr></thead><tbody>"]
    out += [f'<tr><td><a href="#{o.key}"><code>{o.key}</code></a></td><td><code>{escape(o.values)}</code></td><td>{escape(o.default)}</td><td>{escape(o.clause)}</td></tr>' for o in rows]
    return "\n".join(out + ["</tbody></table></div>"])


def program_html(program):
    """The program's own help, command by command, and its name for the index."""
    text = _run([program, "--help"])
    commands = _subcommands(text)
    out = [_plain(text)]
    for command in commands:
        text = _run([program, command, "--help"])
        out += [f'<h2 id="{command}">dpi {command}</h2>', _plain(text)]
        for sub in _subcommands(text):
            out += [f'<h3 id="{command}-{sub}">dpi {command} {sub}</h3>', _plain(_run([program, command, sub, "--help"]))]
    return "\n".join(out), commands


def _subcommands(help_text):
    return re.findall(r"(?m)^  ([\w-]+) {2,}\S", help_text.partition("Subcommands:")[2].split("\n\n")[0])


def _plain(text):
    return f'<div class="block plain"><pre tabindex="0"><code>{escape(text)}</code></pre></div>'


def plan_svg(program, bundle, arguments=()):
    """A plan as a picture, inline: its colours follow the page's."""
    dot = _run([program, "plan", bundle, "--dot", *arguments])
    svg = subprocess.run(["dot", "-Tsvg", "-Gfontname=Helvetica", "-Gfontsize=11"], input=dot, capture_output=True, text=True, check=True).stdout
    svg = re.sub(r"<!--.*?-->\s*", "", svg[svg.index("<svg"):], flags=re.DOTALL).replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    return re.sub(r' id="[^"]*"', "", svg)


def index_html(places):
    """{name: where}: under the letters with which the names begin."""
    out, letter = ["<h1>Index</h1>"], ""
    for name, place in sorted(places.items(), key=lambda p: (_letter(p[0]), p[0].lower())):
        if _letter(name) != letter:
            letter = _letter(name)
            out.append(f"{'</ul>' if len(out) > 1 else ''}<h2 id=\"{re.sub(r'[^a-z]', '-', letter.lower())}\">{letter}</h2><ul class=\"names\">")
        out.append(f'<li><a href="{place}">{escape(unescape(name), quote=False)}</a></li>')
    return "\n".join(out) + "</ul>"


def _letter(name):
    """dpi_model_load is found under the word behind its prefix."""
    special = re.match(r"(dpi_[a-z]+|DPI_E_|option )", name)
    return {"DPI_E_": "Errors", "option ": "Options"}.get(special[1], special[1]) if special else name[0].upper()


def go_html(module):
    """`go doc -all` of the module, its parts under headings."""
    text = subprocess.run(["go", "doc", "-all", "."], cwd=module, capture_output=True, text=True, check=True).stdout
    parts = re.split(r"(?m)^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$", text)
    out = [f'<pre class="comment">{escape(parts[0].strip())}</pre>']
    for title, body in zip(parts[1::2], parts[2::2]):
        out.append(f'<h2 id="go-{title.lower()}">{title.capitalize()}</h2>')
        out += [_go_declaration(d) for d in re.split(r"\n(?=(?:func|type|const|var) )", body.strip("\n")) if d.strip()]
    return "\n".join(out)


def _go_declaration(text):
    name = re.match(r"(?:func (?:\((?:\w+ )?\*?(\w+)\) )?|type )(\w+)", text)
    anchor = ""
    if name:
        full = ".".join(filter(None, name.groups()))
        anchor = f'<h3 id="go-{full}"><code>{full}</code></h3>\n'
    return f'{anchor}<pre class="declaration">{escape(text.rstrip())}</pre>'


def _run(command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True).stdout
