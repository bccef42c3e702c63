"""What models that read text only get in place of documents, search results and images."""

from collections.abc import Iterator

import msgspec

from antiphon_protocols.body import invalid, refuse
from antiphon_protocols.history import TEXT_ONLY, joined, not_shown
from antiphon_protocols.messages import wire

TextLike = wire.TextBlock | wire.DocumentBlock | wire.SearchResultBlock


class Notes:
    """Names of what was left out of the prompt, with their places."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def add(self, name: str) -> None:
        """`name` ends up in the log and a response header."""
        self.names.append(name)


def text_of(block: wire.Block, path: str, notes: Notes) -> str | None:
    """The text of a block that has one, None for a block of another kind. Raises UnsupportedFeature for images and for documents that
    are not text."""
    match block:
        case wire.TextBlock():
            return block.text
        case wire.ImageBlock():
            raise refuse(path, f"type 'image' is not supported: {TEXT_ONLY}")
        case wire.DocumentBlock():
            text = _document(block, path, notes)
            if text is None:
                raise refuse(path, f"type 'document' with a source of type {block.source.type[:80]!r} is not supported: {TEXT_ONLY}")
            return text
        case wire.SearchResultBlock():
            return _search_result(block, path, notes)
        case _:
            return None


def result_part(block: TextLike | wire.ImageBlock, path: str, notes: Notes) -> str:
    """The same within a tool result, where a short note stands for what the model cannot see."""
    match block:
        case wire.TextBlock():
            return block.text
        case wire.SearchResultBlock():
            return _search_result(block, path, notes)
        case wire.DocumentBlock():
            text = _document(block, path, notes)
            if text is not None:
                return text
            notes.add(f"{path}.document")
            return _placeholder("document", block.source, block.title)
        case _:
            notes.add(f"{path}.image")
            return _placeholder("image", block.source, None)


def _placeholder(what: str, source: wire.Source | None, title: str | None) -> str:
    return not_shown(what, ", ".join(part for part in (title, source.media_type if source else None) if part))


def _document(block: wire.DocumentBlock, path: str, notes: Notes) -> str | None:
    """The text of a document, None if its source is something else."""
    if block.citations and block.citations.enabled:
        notes.add(f"{path}.citations")
    source = block.source
    if source.type == "text":
        try:
            text = msgspec.json.decode(source.data, type=str)
        except msgspec.ValidationError:
            raise invalid(f"{path}.source.data", "Expected str") from None
    elif source.type == "content" and source.content is not None:
        parts = [wire.TextBlock(source.content)] if isinstance(source.content, str) else source.content
        text = joined(_content_parts(parts, f"{path}.source.content", notes))
    else:
        return None
    return joined(part for part in (block.title, block.context, text) if part)


def _content_parts(parts: "list[wire.TextBlock] | list[wire.TextBlock | wire.ImageBlock]", path: str, notes: Notes) -> Iterator[str]:
    for index, part in enumerate(parts):
        yield result_part(part, f"{path}.{index}", notes)


def _search_result(block: wire.SearchResultBlock, path: str, notes: Notes) -> str:
    if block.citations and block.citations.enabled:
        notes.add(f"{path}.citations")
    return joined((f"{block.title} ({block.source})", *(part.text for part in block.content)))
