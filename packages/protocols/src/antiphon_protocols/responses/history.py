"""Input items become the ordered messages of a turn request.

What a model produced between two boundaries (a user's or system's message, a result) is one assistant turn, its pieces in the
order of the items.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from antiphon_protocols.body import decode_part, safe_names
from antiphon_protocols.history import CallNames, argument_text, input_text, joined, respaced
from antiphon_protocols.responses import wire
from antiphon_protocols.responses.content import message_text, output_text, parts_text
from antiphon_protocols.responses.native import CALL_ITEMS, NativeTool, write_arguments
from antiphon_protocols.responses.read import COMPACTION_TRIGGER
from antiphon_protocols.responses.tools import INPUT, Target, Toolbox, definition
from antiphon_turns.errors import NotFound
from antiphon_turns.ids import fold, split_carrier
from antiphon_turns.request import AssistantMessage, Message, SystemMessage, Tool, ToolMessage, UserMessage
from antiphon_turns.turn import CallSegment, ReasoningSegment, Segment, TextSegment

OpenCompaction = Callable[[str], str | None]

COMPACTED = "The conversation before this point was compacted. What it came to:\n\n"
UNREADABLE = "The conversation before this point was compacted by a server whose summary cannot be read here; what it said is lost."
NEW_TOOLS = "From here on these tools can be called as well:\n"

REFERENCE = "item_reference"
COMPACTIONS = ("compaction", "compaction_summary", "context_compaction")

_HEAD = msgspec.json.Decoder(wire.ItemHead)
_MESSAGE = msgspec.json.Decoder(wire.MessageItem)
_REASONING = msgspec.json.Decoder(wire.ReasoningItem)
_FUNCTION = msgspec.json.Decoder(wire.FunctionCallItem)
_CUSTOM = msgspec.json.Decoder(wire.CustomCallItem)
_NATIVE = msgspec.json.Decoder(wire.NativeCallItem)
_OUTPUT = msgspec.json.Decoder(wire.OutputItem)
_TOOLS = msgspec.json.Decoder(wire.LoadedToolsItem)
_AGENT = msgspec.json.Decoder(wire.AgentItem)
_COMPACTION = msgspec.json.Decoder(wire.CompactionItem)
_REFERENCE = msgspec.json.Decoder(wire.ReferenceItem)
_SHELL_OUTPUT = msgspec.json.Decoder(list[dict[str, Any]])

_SEARCH = Target(kind="tool_search", name="tool_search")


class HistoryReader:
    """Walks items. `stored` holds what an item reference may name, beside the items walked before it."""

    def __init__(self, box: Toolbox, open_compaction: OpenCompaction, stored: Mapping[str, msgspec.Raw]) -> None:
        self._box = box
        self._open_compaction = open_compaction
        self._stored = stored
        self._seen: set[str] = set()
        self._names = CallNames()
        self._call_ids: dict[str, str] = {}
        self._segments: list[Segment] = []
        self._messages: list[Message] = []
        self.ignored: list[str] = []

    def read(self, items: Iterable[msgspec.Raw], where: str) -> None:
        """Takes items in order. Raises InvalidRequest, UnsupportedFeature or NotFound with the path of the item at fault."""
        for index, item in enumerate(items):
            self._item(item, f"{where}.{index}")

    def system(self, text: str) -> None:
        """Adds system text."""
        self._add(SystemMessage(text))

    def messages(self) -> list[Message]:
        """Everything read so far, in order."""
        self._close()
        return self._messages

    def _item(self, item: msgspec.Raw, path: str) -> None:
        head = decode_part(_HEAD, item, path)
        kind = head.type or ("message" if head.role is not None else REFERENCE)
        if head.id and kind != REFERENCE:
            self._seen.add(head.id)
        if kind in CALL_ITEMS:
            self._native_call(item, path, CALL_ITEMS[kind])
        elif kind in _READERS:
            _READERS[kind](self, item, path)
        elif kind != COMPACTION_TRIGGER:
            self.ignored += safe_names([f"{path}.{kind}"])

    def _add(self, message: Message) -> None:
        self._close()
        self._messages.append(message)

    def _close(self) -> None:
        """Ends the assistant turn that is open."""
        if self._segments:
            self._messages.append(AssistantMessage(tuple(self._segments)))
            self._segments = []

    def _message(self, item: msgspec.Raw, path: str) -> None:
        message = decode_part(_MESSAGE, item, path)
        text = message_text(message.content, f"{path}.content")
        if message.role == "user":
            self._add(UserMessage(text))
        elif message.role != "assistant":
            self._add(SystemMessage(text))
        elif text:
            last = self._segments[-1] if self._segments else None
            if isinstance(last, TextSegment):
                self._segments[-1] = TextSegment(joined((last.text, text)))
            else:
                self._segments.append(TextSegment(text))

    def _agent_message(self, item: msgspec.Raw, path: str) -> None:
        message = decode_part(_AGENT, item, path)
        text = parts_text(message.content, f"{path}.content", self.ignored)
        self._add(UserMessage(f"Message from the agent {message.author}:\n{text}" if message.author else text))

    def _reasoning(self, item: msgspec.Raw, path: str) -> None:
        """The text is in the content or in the summary, never new in both. Without text and without a carrier of ours there is nothing."""
        reasoning = decode_part(_REASONING, item, path)
        text = message_text(reasoning.content, f"{path}.content") or message_text(reasoning.summary, f"{path}.summary")
        carrier = reasoning.encrypted_content or None
        if text or split_carrier(carrier or ""):
            self._segments.append(ReasoningSegment(text, carrier))

    def _function_call(self, item: msgspec.Raw, path: str) -> None:
        call = decode_part(_FUNCTION, item, path)
        target = Target(kind="function", name=call.name, namespace=call.namespace or None)
        if call.namespace == call.name:
            # The vendor spells a function that was loaded by itself so.
            target = Target(kind="function", name=call.name)
        self._call(target, input_text(bytes(call.arguments)), call.call_id, call.id)

    def _custom_call(self, item: msgspec.Raw, path: str) -> None:
        call = decode_part(_CUSTOM, item, path)
        target = Target(kind="custom", name=call.name, namespace=call.namespace or None)
        self._call(target, respaced(msgspec.json.encode({INPUT: call.input}).decode()), call.call_id, call.id)

    def _native_call(self, item: msgspec.Raw, path: str, tool: NativeTool) -> None:
        call = decode_part(_NATIVE, item, path)
        field = call.action if tool.field == "action" else call.operation
        self._call(Target(kind="native", name=tool.name, native=tool.name), write_arguments(tool, bytes(field)), call.call_id, call.id)

    def _search_call(self, item: msgspec.Raw, path: str) -> None:
        call = decode_part(_NATIVE, item, path)
        self._call(_SEARCH, input_text(bytes(call.arguments)), call.call_id, call.id)

    def _call(self, target: Target, arguments: str, call_id: str | None, item_id: str | None) -> None:
        name, known_as = self._box.name_of(target), call_id or item_id or ""
        self._names.add(known_as, name)
        if item_id:
            self._call_ids[fold(item_id)] = known_as
        self._segments.append(CallSegment(name, argument_text(arguments), known_as))

    def _output(self, item: msgspec.Raw, path: str) -> None:
        result = decode_part(_OUTPUT, item, path)
        self._result(result, output_text(result.output, f"{path}.output", self.ignored))

    def _shell_output(self, item: msgspec.Raw, path: str) -> None:
        result = decode_part(_OUTPUT, item, path)
        if not bytes(result.output).lstrip().startswith(b"["):
            return self._output(item, path)
        runs = decode_part(_SHELL_OUTPUT, result.output, f"{path}.output")
        return self._result(result, joined(_shell_run(run) for run in runs))

    def _patch_output(self, item: msgspec.Raw, path: str) -> None:
        result = decode_part(_OUTPUT, item, path)
        text = output_text(result.output, f"{path}.output", self.ignored)
        failed = result.status == "failed"
        self._result(result, text or ("The patch failed." if failed else "Done."), is_error=failed)

    def _result(self, result: wire.OutputItem, text: str, *, is_error: bool = False) -> None:
        known_as = result.call_id or self._call_ids.get(fold(result.id or "")) or result.name or result.id or ""
        self._add(ToolMessage(known_as, text, self._names.name_of(known_as) or result.name, is_error))

    def _search_output(self, item: msgspec.Raw, path: str) -> None:
        """Found tools are shown where they were found, so that the head of the prompt does not move."""
        found = decode_part(_TOOLS, item, path)
        loaded = self._box.load(found.tools, path, deferred=True)
        known_as = found.call_id or found.id or ""
        self._add(ToolMessage(known_as, _definitions(loaded) or "No tool was found.", self._names.name_of(known_as) or "tool_search"))

    def _additional_tools(self, item: msgspec.Raw, path: str) -> None:
        """Before the first word of the conversation these are simply its tools."""
        self._close()
        talked = any(not isinstance(message, SystemMessage) for message in self._messages)
        loaded = self._box.load(decode_part(_TOOLS, item, path).tools, path, deferred=talked)
        shown = [tool for tool in loaded if tool.deferred]
        if talked and shown:
            self._add(SystemMessage(NEW_TOOLS + _definitions(shown)))

    def _compaction(self, item: msgspec.Raw, path: str) -> None:
        text = self._open_compaction(decode_part(_COMPACTION, item, path).encrypted_content or "")
        if text is None:
            self.ignored += safe_names([f"{path}.compaction"])
        self._add(UserMessage(UNREADABLE if text is None else COMPACTED + text))

    def _reference(self, item: msgspec.Raw, path: str) -> None:
        """An item that is in the conversation already is not said twice."""
        wanted = decode_part(_REFERENCE, item, path).id
        if wanted in self._seen:
            return
        found = self._stored.get(wanted)
        if found is None:
            raise NotFound(f"{path}: no item {wanted[:80]!r} is stored here; send the item itself", param=path)
        self._item(found, path)


def after_compaction(items: Sequence[msgspec.Raw]) -> tuple[msgspec.Raw, ...]:
    """Items without what the last compaction among them stands for: it, what follows it, and the system's words before it."""
    heads = [_HEAD.decode(item) for item in items]
    last = max((place for place, head in enumerate(heads) if head.type in COMPACTIONS), default=0)
    return tuple(item for place, item in enumerate(items) if place >= last or heads[place].role in ("system", "developer"))


def _definitions(tools: Iterable[Tool]) -> str:
    return "\n".join(definition(tool) for tool in tools)


def _shell_run(run: dict[str, Any]) -> str:
    """What one command of a shell call printed, and how it ended unless it ended well."""
    outcome = run.get("outcome")
    ending = ""
    if isinstance(outcome, dict) and outcome.get("type") == "timeout":
        ending = "[timed out]"
    elif isinstance(outcome, dict) and outcome.get("exit_code"):
        ending = f"[exit code {outcome['exit_code']}]"
    return joined(str(text) for text in (run.get("stdout"), run.get("stderr"), ending) if text)


_READERS: dict[str, Callable[[HistoryReader, msgspec.Raw, str], None]] = {
    "message": HistoryReader._message,
    "agent_message": HistoryReader._agent_message,
    "reasoning": HistoryReader._reasoning,
    "function_call": HistoryReader._function_call,
    "function_call_output": HistoryReader._output,
    "custom_tool_call": HistoryReader._custom_call,
    "custom_tool_call_output": HistoryReader._output,
    "local_shell_call_output": HistoryReader._output,
    "shell_call_output": HistoryReader._shell_output,
    "apply_patch_call_output": HistoryReader._patch_output,
    "tool_search_call": HistoryReader._search_call,
    "tool_search_output": HistoryReader._search_output,
    "additional_tools": HistoryReader._additional_tools,
    **dict.fromkeys(COMPACTIONS, HistoryReader._compaction),
    REFERENCE: HistoryReader._reference,
}
