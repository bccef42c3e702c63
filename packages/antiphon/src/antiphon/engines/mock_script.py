"""What the mock engine says: rules over the decoded prompt, or so many words on request."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from antiphon_tokenizers import Tokenizer
from antiphon_turns import Frame
from antiphon_turns.errors import ConfigError

FIXED_SENTENCE = "This is the mock engine: it has no script for this prompt."
REPEAT = re.compile(r"@@REPEAT:(\d{1,7})@@")
# Without a script only the tail of a prompt is decoded, so that 50K-token prompts cost nothing here.
TAIL_TOKENS = 64
_GROUP = re.compile(r"\\([1-9])")

Finish = Literal["stop", "length"]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`when` is searched (DOTALL) in the decoded prompt; `say` is spoken with \\1 to \\9 replaced by its groups. Or the prompt must end
    with the text `ends`, and `say` is spoken as it is. `token_delay_ms` goes before that of the options."""

    when: str | None = None
    ends: str | None = None
    say: str
    finish: Finish = "stop"
    token_delay_ms: float | None = None


class Spoken(msgspec.Struct, frozen=True):
    """The ids of an answer, how it ends, and a delay of its own for each token."""

    ids: list[int]
    finish: Finish
    token_delay_ms: float | None = None

    def cut(self, max_tokens: int) -> "Spoken":
        """The answer under a limit."""
        return self if len(self.ids) <= max_tokens else Spoken(self.ids[:max_tokens], "length", self.token_delay_ms)


def load_script(path: Path) -> tuple[Rule, ...]:
    """Reads a script, one JSON object a line. Raises ConfigError naming the line at fault."""
    rules = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read the mock script {path}: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rule = msgspec.json.decode(line, type=Rule)
            if (rule.when is None) == (rule.ends is None):
                raise ConfigError(f"{path}, line {number}: a rule has either `when` or `ends`")
            re.compile(rule.when or "", re.DOTALL)
        except (msgspec.MsgspecError, re.error) as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
        rules.append(rule)
    return tuple(rules)


class Script:
    """The first rule whose `when` is found in the prompt speaks. Raises ConfigError where the tokenizer cannot end a turn."""

    def __init__(self, tokenizer: Tokenizer, frame: Frame, rules: Sequence[Rule]) -> None:
        self._tokenizer = tokenizer
        self._frame = frame
        self._rules = [(re.compile(rule.when, re.DOTALL) if rule.when is not None else None, rule) for rule in rules]
        end = tokenizer.id_of(frame.end_of_turn)
        if end is None:
            raise ConfigError(f"the tokenizer has no token {frame.end_of_turn!r}; the mock engine needs it to end a turn")
        self.end_id = end

    def speak(self, prompt_ids: Sequence[int]) -> Spoken:
        """The answer to a prompt."""
        seen = prompt_ids if self._rules else prompt_ids[-TAIL_TOKENS:]
        prompt = self._tokenizer.decode(list(seen))
        thinking = prompt.rfind("<think>") > max(prompt.rfind("</think>"), prompt.rfind(self._frame.assistant_header))
        repeat = self._repeat(prompt)
        finish: Finish = "stop"
        delay = None
        if repeat is not None:
            say = ("</think>\n\n" if thinking else "") + " word" * repeat
        else:
            say, finish, delay = self._scripted(prompt, thinking=thinking)
        ids = self._tokenizer.encode(say, added=True)
        return Spoken([*ids, self.end_id] if finish == "stop" else ids, finish, delay)

    def _scripted(self, prompt: str, *, thinking: bool) -> tuple[str, Finish, float | None]:
        """What the first fitting rule says, how it ends, and its own delay."""
        for pattern, rule in self._rules:
            if pattern is None:
                if rule.ends is not None and prompt.endswith(rule.ends):
                    return rule.say, rule.finish, rule.token_delay_ms
                continue
            found = pattern.search(prompt)
            if found:
                groups = ("", *found.groups(default=""), *[""] * 9)
                pieces = _GROUP.split(rule.say)
                say = "".join(groups[int(piece)] if place % 2 else piece for place, piece in enumerate(pieces))
                if not thinking and "</think>" in say:
                    say = say.partition("</think>")[2]
                return say, rule.finish, rule.token_delay_ms
        return ("</think>\n\n" if thinking else "") + FIXED_SENTENCE, "stop", None

    def _repeat(self, prompt: str) -> int | None:
        """The order in the last user text: behind every past turn, before the header of the turn to come."""
        header = self._frame.assistant_header
        latest = prompt.rpartition(header)[0].rpartition(header)[2]
        text = latest.rpartition(header.replace("assistant", "user"))[2].partition(self._frame.end_of_turn)[0]
        orders = REPEAT.findall(text)
        return int(orders[-1]) if orders else None
