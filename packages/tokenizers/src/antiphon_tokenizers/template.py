"""Chat templates: Jinja2 in a sandbox, with the meaning Hugging Face's library gives them.

Source of the environment (block trimming, loop controls, `tojson`, `raise_exception`, `strftime_now`, the
`generation` tag): the chat template documentation of Hugging Face transformers.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from antiphon_tokenizers.jsontext import FixedObject, dumps
from antiphon_tokenizers.probe import Abilities, in_parts, probe, roles_in_parts
from antiphon_turns.errors import ConfigError, InvalidRequest

_MAX_OUTPUT = 256 << 20
_MAX_PRODUCT = 1 << 20
_DICT_ATTRIBUTES = frozenset(dir(FixedObject))

# All that a template's own expressions can raise; each is the request's fault once the template has loaded.
_FAULTS = (
    jinja2.TemplateError,
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    AssertionError,
)


class TemplateRefusal(InvalidRequest):
    """The template raised an error of its own, or failed; `detail` is its message."""

    def __init__(self, detail: str) -> None:
        super().__init__(f"the model's chat template refuses this conversation: {detail}", param="messages")
        self.detail = detail


class ChatTemplate:
    """A compiled chat template. What it can do is found out by rendering sentinels when it is loaded: see `Abilities`,
    whose fields are also attributes here.

    `clock` gives the time that `strftime_now` prints. Raises ConfigError when the text is no template.
    """

    def __init__(
        self, text: str, *, bos_token: str | None = None, eos_token: str | None = None, clock: Callable[[], datetime] = datetime.now
    ) -> None:
        self.text = text
        self._tokens = {name: token for name, token in (("bos_token", bos_token), ("eos_token", eos_token)) if token is not None}
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: clock().strftime(form)
        try:
            self._compiled = environment.from_string(text)
        except (jinja2.TemplateError, RecursionError) as error:
            line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
            raise ConfigError(f"the chat template is not valid{line}: {error}") from error
        self._parts: frozenset[str] = frozenset()
        self._parts = roles_in_parts(self.render)
        self.abilities: Abilities = probe(self.render)

    @property
    def renders_tools(self) -> bool:
        """Whether tools passed in appear in the prompt."""
        return self.abilities.renders_tools

    @property
    def accepts_tool_role(self) -> bool:
        """Whether the template knows messages of role "tool" (echoing any role's name does not count)."""
        return self.abilities.accepts_tool_role

    @property
    def accepts_system(self) -> bool:
        """Whether a leading system message is rendered."""
        return self.abilities.accepts_system

    @property
    def system_anywhere(self) -> bool:
        """Whether a system message in mid conversation is rendered where it stands."""
        return self.abilities.system_anywhere

    def render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]] | None = None, **variables: Any) -> str:
        """The prompt text. Content is text; for roles whose content the template reads only as a list of parts it becomes one.
        Raises TemplateRefusal, with the template's own message, when the template refuses the conversation or fails on it, and
        InvalidRequest when the text would pass 256 Mi characters."""
        if self._parts:
            messages = [in_parts(message) if message["role"] in self._parts else message for message in messages]
        parts: list[str] = []
        size = 0
        try:
            for part in self._compiled.generate(self._tokens, messages=messages, tools=tools or None, **variables):
                parts.append(part)
                size += len(part)
                if size > _MAX_OUTPUT:
                    raise InvalidRequest("the chat template's output for this request is too large", param="messages")
        except _FAULTS as error:
            raise TemplateRefusal(str(error) or type(error).__name__) from error
        return "".join(parts)


class _Sandbox(ImmutableSandboxedEnvironment):
    # A product is how a few characters of template make gigabytes.
    intercepted_binops = frozenset(["*", "**"])

    def getattr(self, obj: Any, attribute: str) -> Any:
        # `message.role` is most of what templates do; a plain key needs none of the sandbox's questions.
        if isinstance(obj, dict) and attribute not in _DICT_ATTRIBUTES and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        sizes = [len(side) for side in (left, right) if isinstance(side, str | list | tuple)]
        counts = [side for side in (left, right) if isinstance(side, int | float)]
        if sizes and counts and sizes[0] * counts[0] > _MAX_PRODUCT:
            raise jinja2.TemplateRuntimeError("a repeated sequence is too long")
        if operator == "**" and counts and max(map(abs, counts)) > _MAX_PRODUCT:
            raise jinja2.TemplateRuntimeError("a power is too large")
        return super().call_binop(context, operator, left, right)


class _GenerationTag(Extension):
    """`{% generation %}...{% endgeneration %}` marks what an assistant wrote, for training. A prompt is the same without."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


def _tojson(
    value: Any,
    ensure_ascii: Any = False,  # noqa: FBT002 - the filter's documented parameter order
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: Any = False,  # noqa: FBT002
) -> str:
    if isinstance(value, jinja2.Undefined):
        raise TypeError("an undefined value is not JSON")
    separators = (separators[0], separators[1]) if separators is not None else None
    return dumps(value, ensure_ascii=bool(ensure_ascii), indent=indent, separators=separators, sort_keys=bool(sort_keys))


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(str(message))
