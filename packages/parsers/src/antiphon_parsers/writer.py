"""The turn writer: segments to the model's own text, with exactly the framing the parser takes away.

Reasoning is `<opener>\\n R \\n<closer>\\n\\n`; a call block is set off by one line feed from text or another call before
it and from whatever follows it. Families say which of these line feeds they have, and whether calls share a block.
"""

from collections.abc import Iterator, Sequence

import msgspec

from antiphon_parsers.families.parts import MessageFormat, ToolPart
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, ReasoningSegment, Segment, TextSegment, Tool, ToolMessage


class FormatWriter(msgspec.Struct, frozen=True):
    """A `antiphon_turns.TurnWriter` made of a tool part and reasoning markers. A format without reasoning markers
    leaves past reasoning out."""

    tools: ToolPart
    reasoning: ReasoningMarkers | None = None
    messages: MessageFormat | None = None

    def write(self, segments: Sequence[Segment], *, earlier_calls: int = 0) -> str:
        """The text between a frame's header and its end of turn. Truncated calls are left out."""
        if self.messages is not None:
            return self.messages.write(segments)
        parts: list[str] = []
        before = ""
        for kind, text in self._blocks(segments, earlier_calls):
            framed = before == "call" or (kind == "call" and before == "text")
            parts.append("\n" * self.tools.gap + text if framed else text)
            before = kind
        return "\n" * self.tools.start + "".join(parts) if parts else ""

    def call_id(self, name: str, number: int) -> str | None:
        """The id that the format demands for the call `number` of a conversation."""
        return self.tools.write_id(name, number) if self.tools.write_id is not None else None

    def tool_list(self, tools: Sequence[Tool]) -> str:
        """System text that offers the tools."""
        return self.tools.write_tools(tools)

    def tool_result(self, result: ToolMessage) -> str:
        """User text that carries one result; an error says so."""
        text = f"The call failed with this error:\n{result.text}" if result.is_error else result.text
        return f"<tool_response>\n{text}\n</tool_response>"

    def _blocks(self, segments: Sequence[Segment], number: int) -> Iterator[tuple[str, str]]:
        """(kind, text) of everything that is written; calls that share a block are one."""
        run: list[CallSegment] = []
        for segment in segments:
            if isinstance(segment, CallSegment):
                if segment.status == "truncated":
                    continue
                if self.tools.write_run is None:
                    yield "call", self.tools.write_call(segment)
                else:
                    run.append(segment)
            elif text := self._prose(segment):
                if run and self.tools.write_run is not None:
                    yield "call", self.tools.write_run(run, number)
                    number += len(run)
                    run = []
                yield ("text" if isinstance(segment, TextSegment) else "reasoning"), text
        if run and self.tools.write_run is not None:
            yield "call", self.tools.write_run(run, number)

    def _prose(self, segment: TextSegment | ReasoningSegment) -> str:
        if isinstance(segment, TextSegment):
            return segment.text
        markers = self.reasoning
        if markers is None or not segment.text:
            return ""
        return markers.opener + "\n" * markers.lead + segment.text + markers.close
