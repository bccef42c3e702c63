"""The turn writer: segments to the model's own text, with exactly the framing the parser takes away.

Reasoning is `<opener>\\n R \\n<closer>\\n\\n`, or what the markers say instead; a call block is set off by one line feed from
text or another call before it and from whatever follows it, unless the format needs none.
"""

from collections.abc import Sequence

import msgspec

from antiphon_parsers.families.parts import MessageFormat, ToolPart
from antiphon_parsers.grammar import ReasoningMarkers
from antiphon_turns import CallSegment, ReasoningSegment, Segment, Tool, ToolMessage


class FormatWriter(msgspec.Struct, frozen=True):
    """A `antiphon_turns.TurnWriter` made of a tool part and reasoning markers. A format without reasoning markers
    leaves past reasoning out."""

    tools: ToolPart
    reasoning: ReasoningMarkers | None = None
    messages: MessageFormat | None = None

    def write(self, segments: Sequence[Segment]) -> str:
        """The text between a frame's header and its end of turn. Truncated calls are left out."""
        if self.messages is not None:
            return self.messages.write(segments)
        parts: list[str] = []
        before = ""
        for segment in segments:
            kind, text = self._block(segment)
            if text:
                framed = self.tools.line_framed and (before == "call" or (kind == "call" and before == "text"))
                parts.append("\n" + text if framed else text)
                before = kind
        return "".join(parts)

    def tool_list(self, tools: Sequence[Tool]) -> str:
        """System text that offers the tools."""
        return self.tools.write_tools(tools)

    def tool_result(self, result: ToolMessage) -> str:
        """User text that carries one result; an error says so."""
        text = f"The call failed with this error:\n{result.text}" if result.is_error else result.text
        return f"<tool_response>\n{text}\n</tool_response>"

    def _block(self, segment: Segment) -> tuple[str, str]:
        if isinstance(segment, CallSegment):
            return "call", "" if segment.status == "truncated" else self.tools.write_call(segment)
        if not isinstance(segment, ReasoningSegment):
            return "text", segment.text
        if self.reasoning is None or not segment.text:
            return "reasoning", ""
        return "reasoning", f"{self.reasoning.opener}{self.reasoning.lead}{segment.text}{self.reasoning.close}"
