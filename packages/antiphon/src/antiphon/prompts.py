"""Steps 2 to 5: from a turn request to the ids of its prompt."""

from array import array
from collections.abc import Sequence

import msgspec

from antiphon.inline_reasoning import with_inline_reasoning
from antiphon.model import Model
from antiphon.replay.recall import Recall
from antiphon.seals import TurnSealer
from antiphon.stabilize import StabilizerRule, stabilize
from antiphon_tokenizers import check_size, pack
from antiphon_turns import Anomaly, TurnRequest
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


class Prompts:
    """Makes prompts for one model. Safe to call from several threads."""

    def __init__(self, model: Model, rules: Sequence[StabilizerRule], recall: Recall) -> None:
        self._model = model
        self._rules = rules
        self._recall = recall

    def make(self, request: TurnRequest, sealer: TurnSealer | None, *, tenant: str, limit: int) -> Prompt:
        """The prompt of at most `limit` tokens. Raises RequestError."""
        model = self._model
        check_size(request, model.tokenizer, limit=limit)
        if request.prompt is not None:
            return self._raw_prompt(request, request.prompt, limit)
        stable, acted = stabilize(with_inline_reasoning(request, model.format.grammar.reasoning), self._rules)
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
