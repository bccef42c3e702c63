"""Messages history: system text and wire messages become the ordered messages of a TurnRequest."""

import msgspec

from antiphon_protocols.body import invalid
from antiphon_protocols.history import CallNames, input_text, joined
from antiphon_protocols.messages import wire
from antiphon_protocols.messages.content import Notes, result_part, text_of
from antiphon_protocols.messages.wire import ZERO_WIDTH
from antiphon_turns.ids import split_carrier
from antiphon_turns.request import AssistantMessage, Message, SystemMessage, Tool, ToolMessage, UserMessage
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment


def read_messages(request: wire.WireRequest, tools: tuple[Tool, ...], notes: Notes) -> tuple[Message, ...]:
    """All messages in order, the top-level system text first. What the prompt leaves out is named in `notes`. Raises InvalidRequest for
    blocks a role cannot hold, UnsupportedFeature for what the model cannot see."""
    if not request.messages:
        raise invalid("messages", "at least one message is required")
    reader = _Reader(tools, notes)
    if request.system:
        text = request.system if isinstance(request.system, str) else joined(block.text for block in request.system)
        reader.out.append(SystemMessage(text))
    for index, message in enumerate(request.messages):
        blocks: list[wire.Block] = [wire.TextBlock(message.content)] if isinstance(message.content, str) else message.content
        path = f"messages.{index}.content"
        if message.role == "user":
            reader.user(blocks, path)
        elif message.role == "assistant":
            reader.assistant(blocks, path)
        else:
            reader.system(blocks, path)
    return tuple(reader.out)


class _Reader:
    """Walks a history. Results find the name of their call by id."""

    def __init__(self, tools: tuple[Tool, ...], notes: Notes) -> None:
        self.out: list[Message] = []
        self._notes = notes
        self._names = CallNames()
        self._tools = {tool.name: tool for tool in tools}

    def system(self, blocks: list[wire.Block], path: str) -> None:
        texts = []
        for index, block in enumerate(blocks):
            match block:
                case wire.TextBlock():
                    texts.append(block.text)
                case wire.ToolAdditionBlock():
                    texts.append(self._loaded(block.tool))
                case wire.ToolRemovalBlock():
                    self._notes.add(f"{path}.{index}.tool_removal")
                case _:
                    raise _misplaced(block, f"{path}.{index}", "system")
        self.out.append(SystemMessage(joined(texts)))

    def user(self, blocks: list[wire.Block], path: str) -> None:
        """Text runs and results keep their order; each result is a message of its own."""
        texts: list[str] = []
        results = False
        for index, block in enumerate(blocks):
            place = f"{path}.{index}"
            if isinstance(block, wire.ToolResultBlock):
                if texts:
                    self.out.append(UserMessage(joined(texts)))
                    texts = []
                results = True
                self.out.append(self._result(block, place))
                continue
            text = text_of(block, place, self._notes)
            if text is None:
                raise _misplaced(block, place, "user")
            texts.append(text)
        if texts or not results:
            self.out.append(UserMessage(joined(texts)))

    def assistant(self, blocks: list[wire.Block], path: str) -> None:
        """Segments in the client's order. Redacted thinking, and thinking that holds neither text nor a carrier of ours, says
        nothing to the model and is dropped."""
        segments: list[Segment] = []
        for index, block in enumerate(blocks):
            match block:
                case wire.TextBlock():
                    last = segments[-1] if segments else None
                    if isinstance(last, TextSegment):
                        segments[-1] = TextSegment(joined((last.text, block.text)))
                    else:
                        segments.append(TextSegment(block.text))
                case wire.ThinkingBlock():
                    text = "" if block.thinking == ZERO_WIDTH else block.thinking
                    if text or split_carrier(block.signature or ""):
                        segments.append(ReasoningSegment(text, block.signature or None))
                case wire.ToolUseBlock():
                    self._names.add(block.id, block.name)
                    segments.append(CallSegment(block.name, input_text(bytes(block.input)), block.id))
                case wire.RedactedThinkingBlock():
                    pass
                case _ if isinstance(block, wire.ServerBlock):
                    self._notes.add(f"{path}.{index}.{type(block).__struct_config__.tag}")
                case _:
                    raise _misplaced(block, f"{path}.{index}", "assistant")
        self.out.append(AssistantMessage(tuple(segments)))

    def _result(self, block: wire.ToolResultBlock, path: str) -> ToolMessage:
        content = block.content or ""
        if not isinstance(content, str):
            parts = enumerate(content)
            content = joined(
                self._loaded(part) if isinstance(part, wire.ToolReference) else result_part(part, f"{path}.content.{index}", self._notes)
                for index, part in parts
            )
        return ToolMessage(block.tool_use_id, content, self._names.name_of(block.tool_use_id), bool(block.is_error))

    def _loaded(self, reference: wire.ToolReference) -> str:
        """A deferred tool is shown to the model where it was loaded, so that the head of the prompt does not move."""
        name = reference.tool_name or reference.name or ""
        tool = self._tools.get(name)
        if tool is None:
            return name
        definition = {"name": tool.name, "description": tool.description or "", "parameters": msgspec.Raw(tool.parameters.encode())}
        return msgspec.json.encode(definition).decode()


def _misplaced(block: wire.Block, path: str, role: str) -> Exception:
    kind = type(block).__struct_config__.tag
    return invalid(path, f"a block of type {kind!r} does not belong in a message of role {role!r}")
