"""Local references of JSON schemas (JSON pointers behind "#")."""

from typing import Any


def reference_target(reference: object, root: dict[str, Any]) -> dict[str, Any] | None:
    """The schema a reference names; None when it leads nowhere or elsewhere."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    place: object = root
    path = reference[1:].strip("/")
    for step in path.split("/") if path else ():
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and step in place:
            place = place[step]
        elif isinstance(place, list) and step.isdecimal() and int(step) < len(place):
            place = place[int(step)]
        else:
            return None
    return place if isinstance(place, dict) else None


def is_reference_good(reference: object, root: dict[str, Any]) -> bool:
    """Whether a reference leads, maybe over others, to a schema that says something."""
    seen: set[str] = set()
    while isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        target = reference_target(reference, root)
        if target is None:
            return False
        if "$ref" not in target:
            return True
        reference = target["$ref"]
    return False


def bad_references(schema: dict[str, Any]) -> tuple[str, ...]:
    """The references of a schema that lead nowhere, each once."""
    found: dict[str, None] = {}
    todo: list[tuple[object, int]] = [(schema, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > 64:
            continue
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str) and not is_reference_good(reference, schema):
                found[reference] = None
            todo += [(value, depth + 1) for value in node.values()]
        elif isinstance(node, list):
            todo += [(value, depth + 1) for value in node]
    return tuple(found)
