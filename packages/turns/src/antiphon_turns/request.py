"""TurnRequest: what a surface asks for, in the one internal form. Plain data, built by ingest only."""

from typing import Any, Literal

import msgspec

from antiphon_turns.hints import AgentHints, RoutingWish
from antiphon_turns.turn import Segment


class FreeformGrammar(msgspec.Struct, frozen=True):
    """What the text of a freeform tool must match; `definition` is a Lark grammar or a regular expression, as the client wrote it."""

    syntax: Literal["lark", "regex"]
    definition: str


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A function the model may call. `parameters` is the JSON schema as the client's own JSON text
    (order and number spelling kept); `schema` is the same, decoded. A `deferred` tool may be called but is not part of
    the prompt's head: the history shows it where it was loaded. A tool that takes one free text has exactly one required string
    parameter `input`; `freeform` is what that text must match. `strict`: the client wants the schema enforced."""

    name: str
    description: str | None = None
    parameters: str = '{"type": "object", "properties": {}}'
    deferred: bool = False
    freeform: FreeformGrammar | None = None
    strict: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """The decoded schema; {} where the client sent something that is not an object."""
        value = msgspec.json.decode(self.parameters)
        return value if isinstance(value, dict) else {}

    def required(self) -> tuple[str, ...]:
        """Names of the required parameters, in schema order."""
        required = self.schema.get("required", ())
        return tuple(name for name in required if isinstance(name, str)) if isinstance(required, list) else ()


class ToolChoice(msgspec.Struct, frozen=True, kw_only=True):
    """auto: the model decides; none: no call, tools leave the prompt; any: at least one call; named: that one.
    `parallel` False ends the turn after the first call."""

    mode: Literal["auto", "none", "any", "named"] = "auto"
    name: str | None = None
    parallel: bool = True


class Thinking(msgspec.Struct, frozen=True, kw_only=True):
    """default: what the template does unasked; adaptive: the model may decide for itself. `budget_tokens` and `effort` (a level of
    `antiphon_turns.effort.LEVELS`, or a word that only one family knows) are the client's wishes."""

    mode: Literal["on", "off", "adaptive", "default"] = "default"
    effort: str | None = None
    budget_tokens: int | None = None


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True):
    """The visible text must be one JSON value: of `schema` (JSON text as the client wrote it), or any object where it is None.
    `name` is the client's label."""

    schema: str | None = None
    name: str | None = None


class ReplayWish(msgspec.Struct, frozen=True, kw_only=True):
    """How much past reasoning is wanted in the prompt. `turns`: None = what the family's policy says, "all", "current" = that of the
    running turn alone, or that of the last N turns that reasoned (a turn reaches from one user message to the next). `cold_before`:
    whatever else holds, messages before this index bring none."""

    turns: int | Literal["all", "current"] | None = None
    cold_before: int = 0


class Sampling(msgspec.Struct, frozen=True, kw_only=True):
    """None = the engine's default. `stop` strings are ours (matched in visible text), never the engine's. `top_logprobs`: None = no
    probabilities, 0 = those of the sampled tokens, N = also the N most likely ones."""

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None


class SystemMessage(msgspec.Struct, frozen=True, tag="system"):
    """System or developer text, at the place in the conversation where the client put it."""

    text: str


class UserMessage(msgspec.Struct, frozen=True, tag="user"):
    """Text of the human (or of the harness on their behalf)."""

    text: str


class AssistantMessage(msgspec.Struct, frozen=True, tag="assistant"):
    """A past turn, or, as the last message, a prefill the model continues."""

    segments: tuple[Segment, ...]


class ToolMessage(msgspec.Struct, frozen=True, tag="tool"):
    """One result. `call_id` is the id of the call as the client spells it; `name` is filled in from the history
    when known. `is_error` results are shown to the model as errors."""

    call_id: str
    text: str
    name: str | None = None
    is_error: bool = False


Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage
Surface = Literal["messages", "chat", "responses", "completions"]


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for one turn. `template_kwargs` holds the client's chat_template_kwargs (whitelisted later);
    `ignored` names the unknown fields that were accepted. `prompt`, where it is set, is the whole prompt as text or token ids:
    no template is used, and the answer is plain text. `parent` is the session that started this one; with `session_ends` no
    further turn of the session will come. `retain_seconds`: how long the prompt should stay cached after the turn; infinite: as long
    as the server allows."""

    surface: Surface
    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = ToolChoice()
    output: OutputFormat | None = None
    thinking: Thinking = Thinking()
    replay: ReplayWish = ReplayWish()
    sampling: Sampling = Sampling()
    prompt: str | tuple[int, ...] | None = None
    hints: AgentHints = AgentHints()
    template_kwargs: dict[str, Any] = {}
    routing: RoutingWish = RoutingWish()
    session: str | None = None
    parent: str | None = None
    session_ends: bool = False
    retain_seconds: float = 0.0
    stream: bool = False
    ignored: tuple[str, ...] = ()
