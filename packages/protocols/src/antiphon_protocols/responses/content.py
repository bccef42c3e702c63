"""Text out of content parts. What is no text is refused by name where a person sent it, and stands as a placeholder in a tool's result."""

import msgspec

from antiphon_protocols.body import decode_part, invalid, refuse, safe_names
from antiphon_protocols.history import TEXT_ONLY, joined, not_shown
from antiphon_protocols.responses import wire

_TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")
_UNSEEN = {
    "input_image": "image",
    "image_url": "image",
    "computer_screenshot": "screenshot",
    "input_file": "file",
    "input_audio": "audio",
}
_OUTPUT = msgspec.json.Decoder(str | list[wire.Part])


def message_text(content: wire.Content, path: str) -> str:
    """The text of a message. Raises UnsupportedFeature with the path of a part that is no text."""
    return _text(content, path, None)


def output_text(raw: msgspec.Raw, path: str, ignored: list[str]) -> str:
    """The text of a tool's result: of a string, of parts, or of any other JSON as it stands. Raises InvalidRequest for broken parts."""
    text = bytes(raw).decode().strip()
    if text == "null":
        return ""
    if not text.startswith(('"', "[")):
        return text
    return parts_text(decode_part(_OUTPUT, raw, path), path, ignored)


def parts_text(content: wire.Content, path: str, ignored: list[str]) -> str:
    """The text of content that a program made. A part that is no text is replaced and named in `ignored`: an agent that looked at a
    picture would otherwise never get beyond it."""
    return _text(content, path, ignored)


def _text(content: wire.Content, path: str, ignored: list[str] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return joined(_part(part, f"{path}.{index}", ignored) for index, part in enumerate(content))


def _part(part: wire.Part, path: str, ignored: list[str] | None) -> str:
    if part.type == "refusal":
        return part.refusal or ""
    if part.type in _TEXTS:
        if part.text is None:
            raise invalid(f"{path}.text", "Field required")
        return part.text
    if ignored is None:
        raise refuse(path, f"type {part.type[:80]!r} is not supported: {TEXT_ONLY}")
    ignored += safe_names([f"{path}.{part.type}"])
    return not_shown(_UNSEEN.get(part.type, "content"))
