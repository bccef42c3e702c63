"""Writes docs/fields.md from the wire structs: which request fields each surface honours, accepts without effect, or refuses by name.

usage: field_table.py            writes the file
       field_table.py --check    exit status 1 if the file is not what would be written
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
from msgspec import inspect

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "fields.md"
SURFACES = {
    "messages": ("Anthropic Messages", "POST /v1/messages"),
    "responses": ("OpenAI Responses", "POST /v1/responses"),
    "chat": ("OpenAI Chat Completions", "POST /v1/chat/completions"),
    "completions": ("OpenAI Completions (legacy)", "POST /v1/completions"),
}
# A refusal with a body of its own, so it stands in the surface's code and not in its list.
SPECIAL = {("messages", "thread"): "with the error code at which the SDK's tool runner sends the whole conversation instead"}
HEAD = """# Request fields

Made by `make docs` from the wire types of `antiphon_protocols`; a test keeps it current. A field is

* **honoured**: it changes what the server does or what the answer says;
* **accepted**: clients send it unasked and it changes nothing here, so it is taken without a word;
* **refused**: it asks for something this server does not do, and a 400 names it.

Any other field is accepted, named in the server's log and in the header `x-antiphon-ignored` of the answer. Fields inside an object are
listed where the server reads them; `[]` marks the elements of a list, `(kind)` those with that `type`.
"""
SIMPLE: dict[type[inspect.Type], str] = {
    inspect.BoolType: "boolean",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.StrType: "string",
    inspect.AnyType: "any",
    inspect.RawType: "any",
    inspect.DictType: "object",
}


def wire_module(surface: str) -> ModuleType | None:
    """The wire types of a surface, where this version has it."""
    if importlib.util.find_spec(f"antiphon_protocols.{surface}") is None:
        return None
    return importlib.import_module(f"antiphon_protocols.{surface}.wire")


def options(kind: inspect.Type) -> list[inspect.Type]:
    """The members of a union that say something."""
    members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
    return [member for member in members if type(member).__name__ not in ("NoneType", "UnsetType")]


def shape(kind: inspect.Type) -> str:
    """A type in JSON's words."""
    found: list[str] = []
    for member in options(kind):
        if isinstance(member, inspect.LiteralType):
            found += [f"`{value}`" for value in member.values]
        elif isinstance(member, inspect.ListType):
            found.append("list")
        elif isinstance(member, inspect.StructType):
            found.append("object")
        else:
            found.append(SIMPLE[type(member)])
    return " or ".join(dict.fromkeys(found))


def inner(kind: inspect.Type, path: str, above: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    """(path, shape) of the fields inside a type; a type inside itself is not opened again."""
    for member in options(kind):
        if isinstance(member, inspect.ListType):
            yield from inner(member.item_type, f"{path}[]", above)
        elif isinstance(member, inspect.StructType) and member.cls not in above:
            tag = f" ({member.tag})" if member.tag is not None else ""
            for field in member.fields:
                place = f"{path}{tag}.{field.encode_name}"
                yield place, shape(field.type)
                yield from inner(field.type, place, (*above, member.cls))


def reason(refused: Any, name: str) -> str:
    """What to do instead of a refused field, where the surface says it."""
    return str(refused[name]) if isinstance(refused, dict) else ""


def refusals(surface: str) -> dict[str, str]:
    """Refused fields, with what to do instead."""
    wire: Any = wire_module(surface)
    special = {name: text for (where, name), text in SPECIAL.items() if where == surface}
    return {**{name: reason(wire.REFUSED, name) for name in wire.REFUSED}, **special}


def table(surface: str) -> Iterator[str]:
    """The rows of one surface: what is honoured, with what stands inside; then what is accepted; then what is refused."""
    wire: Any = wire_module(surface)
    refused = refusals(surface)
    root = inspect.type_info(wire.WireRequest)
    assert isinstance(root, inspect.StructType)
    yield "| field | | shape |"
    yield "|---|---|---|"
    for field in root.fields:
        if field.encode_name in refused:
            continue
        yield f"| `{field.encode_name}` | honoured | {shape(field.type)} |"
        for path, kind in inner(field.type, field.encode_name, (wire.WireRequest,)):
            yield f"| &nbsp;&nbsp;`{path}` | | {kind} |"
    for name in sorted(wire.ACCEPTED):
        yield f"| `{name}` | accepted | |"
    for name, instead in sorted(refused.items()):
        yield f"| `{name}` | refused | {instead} |"


def page() -> str:
    """The whole document."""
    parts = [HEAD]
    for surface, (title, path) in SURFACES.items():
        if wire_module(surface) is not None:
            parts.append("\n".join((f"## {title}: `{path}`", "", *table(surface), "")))
    return "\n".join(parts)


def honoured(surface: str) -> set[str]:
    """Top-level fields that the table of a surface calls honoured."""
    wire: Any = wire_module(surface)
    return {field.encode_name for field in msgspec.structs.fields(wire.WireRequest)} - set(refusals(surface))


def main() -> None:
    """Writes or checks the page."""
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text("utf-8") != text:
            sys.exit("docs/fields.md is not current; `make docs` writes it")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
