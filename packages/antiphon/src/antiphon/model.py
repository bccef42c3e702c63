"""A loaded model as the frontend sees it: name, tokenizer, family, renderer. No weights are here."""

from pathlib import Path

import msgspec

from antiphon.aliases import Aliases, read_aliases
from antiphon_parsers import (
    Candidate,
    Declared,
    Detection,
    ModelFormat,
    adapt,
    declare,
    detect,
    is_declared,
    native_template,
    resolve,
    weigh,
)
from antiphon_tokenizers import ChatTemplate, ModelFiles, Renderer, Tokenizer, load_model_files
from antiphon_turns import CallSegment, Keep, ReasoningSegment, ReplayPolicy, TextSegment
from antiphon_turns.errors import ConfigError, UnknownModel

DEFAULT_CONTEXT = 8192


class ModelChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator asked for; None = found out from the model itself."""

    path: Path
    name: str | None = None
    context_length: int | None = None
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    aliases: tuple[str, ...] = ()
    vendor_aliases: bool = True
    replay: Keep | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What clients know of a model: the names it answers to, and tokens of prompt plus answer."""

    name: str
    context_length: int
    aliases: Aliases = Aliases()


def identify(choice: ModelChoice, *, name: str, context_length: int) -> Identity:
    """The identity of a choice whose name and context are known. Raises ConfigError for bad aliases."""
    aliases = read_aliases(choice.aliases, served=name, vendors=choice.vendor_aliases)
    return Identity(name=name, context_length=context_length, aliases=aliases)


class Recognition(msgspec.Struct, frozen=True, kw_only=True):
    """The format of a model, the reason for it, and what would fit as well."""

    model_format: ModelFormat
    why: str
    others: tuple[Candidate, ...] = ()


class Model:
    """One served model. Immutable after construction; shared by all requests."""

    def __init__(self, identity: Identity, *, files: ModelFiles, template: str, found: Recognition) -> None:
        model_format = found.model_format
        self.name = identity.name
        self.aliases = identity.aliases
        self.path = files.path
        self.tokenizer: Tokenizer = files.tokenizer
        self.kv_bytes_per_token = files.kv_bytes_per_token
        self.format = model_format
        self.family = model_format.family
        self.why = found.why
        self.others = found.others
        self.context_length = identity.context_length
        self.template_text = template
        self.label = " + ".join(name for name in model_format.names if name) or "plain text"
        self.renderer = Renderer(
            ChatTemplate(template, bos_token=files.bos_token, eos_token=files.eos_token),
            files.tokenizer,
            family=model_format.family,
            writer=model_format.writer,
        )
        ends = (files.tokenizer.id_of(token) for token in self.family.frame.stop_tokens)
        self.stop_ids = frozenset(files.eos_ids) | {token_id for token_id in ends if token_id is not None}
        self.foreign_ids = foreign_ids(files.tokenizer, model_format) - self.stop_ids

    def answers_to(self, name: str) -> bool:
        """Whether a request for this name is one for this model."""
        return name == self.name or self.aliases.match(name)

    def check_name(self, name: str) -> None:
        """Raises UnknownModel unless the model answers to the name."""
        if not self.answers_to(name):
            message = f"no model {name[:200]!r} here; this server has {self.name!r}, and --alias makes it answer to further names"
            raise UnknownModel(message, param="model")


# One of everything a turn can hold.
_SAMPLE = (ReasoningSegment("r"), TextSegment("t"), CallSegment("f", "{}"), TextSegment("t"), CallSegment("f", "{}"))


def foreign_ids(tokenizer: Tokenizer, model_format: ModelFormat) -> frozenset[int]:
    """Control tokens that mean nothing inside a turn of this family: dropped when sampled, never shown. Those are all the family does
    not name, and those that open a turn, unless the family writes them within one too (harmony does)."""
    family = model_format.family
    header, written = family.frame.assistant_header, model_format.writer.write(_SAMPLE)
    known = {token for token in family.markers if token not in header or token in written}
    return frozenset(token_id for token, token_id in tokenizer.control_tokens.items() if token not in known)


def load_model(choice: ModelChoice) -> Model:
    """Reads tokenizer, template and metadata. Raises ConfigError with a sentence that says what to do."""
    files = load_model_files(choice.path)
    template = files.chat_template
    found = choose_format(choice, files, template or "")
    if template is None:
        template, found = _native(choice, found)
    trained = files.context_length
    if choice.context_length and trained and choice.context_length > trained:
        raise ConfigError(f"--context-length {choice.context_length} is more than the {trained} tokens {files.name} was trained for")
    return Model(
        identify(choice, name=choice.name or files.name, context_length=choice.context_length or trained or DEFAULT_CONTEXT),
        files=files,
        template=template,
        found=found,
    )


def _native(choice: ModelChoice, found: Recognition) -> tuple[str, Recognition]:
    """The project's own template of the format, for files without one. ConfigError where the format has none."""
    template = native_template(found.model_format)
    if template is None:
        raise ConfigError(
            f"{choice.path} has no chat template, and Antiphon has none of its own for it: as a base model it cannot hold a conversation."
            " Use an instruct model, put a chat_template.jinja beside its tokenizer.json, or name the family with --tool-call-parser"
        )
    why = f"{found.why.removesuffix('.')}. The files have no chat template; Antiphon's own for {found.model_format.family.name} is used."
    return template, msgspec.structs.replace(found, why=why)


def load_mock_model(choice: ModelChoice, template: str) -> Model:
    """The mock model: a borrowed tokenizer, the project's own template, every turn's reasoning kept."""
    files = load_model_files(choice.path)
    named = adapt(resolve(choice.tool_call_parser or "qwen3_coder", choice.reasoning_parser or "qwen3"), template)
    # Whatever family it plays, its template frames turns as ChatML does.
    chatml = resolve("qwen3_coder", None).family
    markers = tuple(dict.fromkeys((*named.family.markers, *chatml.markers)))
    replay = ReplayPolicy(keep=choice.replay or "all", fixed=choice.replay is not None)
    family = msgspec.structs.replace(named.family, replay=replay, frame=chatml.frame, markers=markers)
    return Model(
        identify(choice, name=choice.name or "antiphon-mock", context_length=choice.context_length or 262_144),
        files=files,
        template=template,
        found=Recognition(model_format=msgspec.structs.replace(named, family=family), why="the mock template was written for it"),
    )


def choose_format(choice: ModelChoice, files: ModelFiles, template: str) -> Recognition:
    """The family: named by the operator, else found out."""
    found = look_at(files, template)
    tools, reasoning = choice.tool_call_parser, choice.reasoning_parser
    declared = declared_format(files, template) if is_declared(tools) or is_declared(reasoning) else found.declared
    model_format = resolve(tools or found.tool_parser, reasoning or found.reasoning_parser, declared=declared)
    open_questions = tuple(other for other in found.others if not (tools if other.kind == "tool" else reasoning))
    why = "named by the operator" if tools or reasoning else found.reason
    return Recognition(model_format=adapt(model_format, template, replay=choice.replay), why=why, others=open_questions)


def look_at(files: ModelFiles, template: str) -> Detection:
    """What the model's files say about its format, its own declaration included."""
    found = detect(template, files.tokenizer.added_tokens, files.architectures)
    if files.response_template is None:
        return found
    return weigh(found, files.response_template, template=template, turn_ends=_ends(files))


def declared_format(files: ModelFiles, template: str) -> Declared | None:
    """The format that the model declares itself. ConfigError when it cannot be read."""
    if files.response_template is not None:
        return declare(files.response_template, template=template, turn_ends=_ends(files))
    if files.response_schema:
        raise ConfigError(
            f"{files.path} declares its output as response_schema, expressions over the whole text that cannot be read while it streams;"
            " models of today declare response_template: name a family with --tool-call-parser"
        )
    return None


def _ends(files: ModelFiles) -> tuple[str, ...]:
    return (files.eos_token,) if files.eos_token else ()
