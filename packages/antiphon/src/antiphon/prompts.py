"""Steps 2 to 5: from a turn request to the ids of its prompt."""

from array import array
from collections.abc import Callable, Sequence

import msgspec

from antiphon.cold_reasoning import ColdCuts, cut_at_last_user, is_cold
from antiphon.effort_pins import EffortPins
from antiphon.inline_reasoning import with_inline_reasoning
from antiphon.model import Model
from antiphon.replay.recall import Recall
from antiphon.seals import TurnSealer
from antiphon.stabilize import StabilizerRule, stabilize
from antiphon_tokenizers import certain_ids, check_size, pack
from antiphon_turns import Anomaly, AssistantMessage, CallSegment, Message, Segment, ToolMessage, TurnRequest, UserMessage
from antiphon_turns.effort import named
from antiphon_turns.errors import ContextOverflow, InvalidRequest


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A request after steps 2 to 5: `request` is the stabilized one, `opening` what the prompt leaves to the parser. `restored` are the
    messages that stand in it as they were sampled."""

    request: TurnRequest
    ids: "array[int]"
    opening: str
    stabilized: tuple[str, ...] = ()
    anomalies: tuple[Anomaly, ...] = ()
    restored: tuple[int, ...] = ()


class PromptOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator chose. `pin_effort`: an effort at the head of the prompt stays what it was first. `drop_cold_reasoning`: old
    reasoning leaves a prompt whose cache is gone anyway."""

    rules: tuple[StabilizerRule, ...] = ()
    pin_effort: bool = False
    drop_cold_reasoning: bool = False


class Prompts:
    """Makes prompts for one model. `held` says how many tokens of a prompt a cache may hold. Safe to call from several threads."""

    def __init__(
        self, model: Model, recall: Recall, *, options: PromptOptions, held: Callable[[TurnRequest, Sequence[int], str], int]
    ) -> None:
        self._model = model
        self._recall = recall
        self._options = options
        self._held = held
        self._pins = EffortPins(hold=options.pin_effort)
        self._cuts = ColdCuts()

    def use_rules(self, rules: Sequence[StabilizerRule]) -> None:
        """Stabilizer rules for prompts from now on."""
        self._options = msgspec.structs.replace(self._options, rules=tuple(rules))

    def make(self, request: TurnRequest, sealer: TurnSealer | None, *, tenant: str, limit: int, counting: bool = False) -> Prompt:
        """The prompt of at most `limit` tokens. `counting`: no turn follows, and nothing is remembered. Raises RequestError."""
        model = self._model
        check_size(request, model.tokenizer, limit=limit)
        if request.prompt is not None:
            return self._raw_prompt(request, request.prompt, limit)
        stable, acted = stabilize(with_inline_reasoning(request, model.format.grammar.reasoning), self._options.rules)
        stable = named(stable, model.family.switches, reasons=model.format.grammar.reasoning is not None)
        key = tenant, conversation_key(stable)
        stable = self._cuts.applied(key, self._pinned(stable, key, counting=counting))
        prompt = self._rendered(stable, acted, sealer, tenant=tenant, limit=limit)
        tried = cut_at_last_user(stable) if self._options.drop_cold_reasoning and not counting else None
        if tried is None:
            return prompt
        shorter = self._rendered(tried, acted, sealer, tenant=tenant, limit=limit)
        if not is_cold(held=self._held(stable, prompt.ids, tenant), kept=prompt.ids, dropped=shorter.ids):
            return prompt
        self._cuts.remember(key, tried)
        return shorter

    def ahead(self, request: TurnRequest, reply: Sequence[Segment], sealer: TurnSealer | None, *, tenant: str, limit: int) -> "array[int]":
        """The ids with which the next prompt of the conversation surely begins. `request` is that of a prompt made here, `reply` the turn
        that answered it, which the ledger knows. Behind its calls their results will stand, behind any other turn the user's text.
        None where the template shows neither. Raises RequestError."""
        mark = _unused(request, reply)
        calls = [segment for segment in reply if isinstance(segment, CallSegment) and segment.status != "truncated"]
        follows: list[Message] = [ToolMessage(call.call_id, mark, call.name) for call in calls]
        longer = (*request.messages, AssistantMessage(tuple(reply)), *(follows or [UserMessage(mark)]))
        request = msgspec.structs.replace(request, messages=longer)
        rendered = self._model.renderer.render(request, self._recall.find(request, sealer, tenant=tenant).records)
        return certain_ids(rendered, mark, self._model.tokenizer, limit=limit)

    def _pinned(self, request: TurnRequest, key: tuple[str, str], *, counting: bool) -> TurnRequest:
        pinned = self._pins.pin(key, request.thinking, self._model.family.switches, remember=not counting)
        ignored = (*request.ignored, "effort") if pinned.held else request.ignored
        return msgspec.structs.replace(request, thinking=pinned.thinking, ignored=ignored)

    def _rendered(self, stable: TurnRequest, acted: tuple[str, ...], sealer: TurnSealer | None, *, tenant: str, limit: int) -> Prompt:
        model = self._model
        recalled = self._recall.find(stable, sealer, tenant=tenant)
        rendered = model.renderer.render(stable, recalled.records)
        return Prompt(
            request=stable,
            ids=pack(rendered, model.tokenizer, limit=limit),
            opening=rendered.opening,
            stabilized=acted,
            anomalies=(*recalled.anomalies, *rendered.anomalies),
            restored=rendered.exact,
        )

    def _raw_prompt(self, request: TurnRequest, prompt: str | tuple[int, ...], limit: int) -> Prompt:
        """A prompt without template. Its text is the client's own rendering, so control tokens in it are control."""
        tokenizer = self._model.tokenizer
        token_ids = tokenizer.encode(prompt, added=True) if isinstance(prompt, str) else list(prompt)
        if not token_ids:
            raise InvalidRequest("prompt: must not be empty", param="prompt")
        if min(token_ids) < 0 or max(token_ids) >= tokenizer.vocab_size:
            raise InvalidRequest(f"prompt: token ids must be between 0 and {tokenizer.vocab_size - 1}", param="prompt")
        if len(token_ids) > limit:
            raise ContextOverflow(len(token_ids), limit)
        return Prompt(request=request, ids=array("I", token_ids), opening="")


def _unused(request: TurnRequest, reply: Sequence[Segment]) -> str:
    """A word that nobody has said."""
    messages = (*request.messages, AssistantMessage(tuple(reply)))
    texts = [text for message in messages for text in _texts(message)]
    texts += [tool.description or "" for tool in request.tools]
    mark = "qzahead"
    while any(mark in text for text in texts):
        mark += "z"
    return mark


def _texts(message: Message) -> tuple[str, ...]:
    if not isinstance(message, AssistantMessage):
        return (message.text,)
    return tuple(segment.arguments if isinstance(segment, CallSegment) else segment.text for segment in message.segments)


def request_size(request: TurnRequest) -> int:
    """Characters of prompt text, roughly; what decides whether rendering leaves the event loop."""
    size = sum(len(tool.parameters) + len(tool.description or "") for tool in request.tools)
    for message in request.messages:
        segments = getattr(message, "segments", None)
        if segments is None:
            size += len(getattr(message, "text", ""))
        else:
            size += sum(len(getattr(segment, "text", "")) + len(getattr(segment, "arguments", "")) for segment in segments)
    return size


def conversation_key(request: TurnRequest) -> str:
    """Session and first user text: tells a session's side requests and sub-agents from its main line."""
    first = next((message.text[:512] for message in request.messages if isinstance(message, UserMessage)), "")
    return f"{request.session or ''}\n{first}"
