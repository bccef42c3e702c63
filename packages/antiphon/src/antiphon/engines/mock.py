"""The scripted engine: no weights, real tokens. It plays a model's part for tests, demos and benchmarks."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from antiphon.engines.base import Chunk, Job
from antiphon.engines.mock_cache import PrefixCache
from antiphon_tokenizers import Tokenizer
from antiphon_turns import Frame, SampledLogprob, TokenLogprob
from antiphon_turns.errors import ConfigError

FIXED_SENTENCE = "This is the mock engine: it has no script for this prompt."
REPEAT = re.compile(r"@@REPEAT:(\d{1,7})@@")
# Without a script only the tail of a prompt is decoded, so that 50K-token prompts cost nothing here.
TAIL_TOKENS = 64
_GROUP = re.compile(r"\\([1-9])")


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """`when` is searched (DOTALL) in the decoded prompt; `say` is spoken with \\1 to \\9 replaced by its groups.
    `token_delay_ms` goes before that of the options."""

    when: str
    say: str
    finish: Literal["stop", "length"] = "stop"
    token_delay_ms: float | None = None


class MockOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`chunk_tokens` ids leave at a time, each after `token_delay_ms` of simulated decoding. `prefix_cache`: blocks
    of prompts and answers are remembered and reported as cached."""

    chunk_tokens: int = 1
    token_delay_ms: float = 0.0
    prefix_cache: bool = False


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
            re.compile(rule.when, re.DOTALL)
        except (msgspec.MsgspecError, re.error) as error:
            raise ConfigError(f"{path}, line {number}: {error}") from error
        rules.append(rule)
    return tuple(rules)


class MockEngine:
    """Plays the first rule whose `when` is found in the prompt. Ignores sampling and grammars; its
    log probabilities are made up."""

    constrains = False
    reports_logprobs = True

    def __init__(self, tokenizer: Tokenizer, frame: Frame, *, rules: Sequence[Rule] = (), options: MockOptions | None = None) -> None:
        self._tokenizer = tokenizer
        self._frame = frame
        self._rules = [(re.compile(rule.when, re.DOTALL), rule) for rule in rules]
        self._options = options or MockOptions()
        end = tokenizer.id_of(frame.end_of_turn)
        if end is None:
            raise ConfigError(f"the tokenizer has no token {frame.end_of_turn!r}; the mock engine needs it to end a turn")
        self._end_id = end
        self._ready = False
        self._cache = PrefixCache() if self._options.prefix_cache else None
        self.running = 0

    async def start(self) -> None:
        """Nothing to load."""
        self._ready = True

    async def close(self) -> None:
        """Refuses later jobs."""
        self._ready = False

    def ready(self) -> bool:
        """True between start and close."""
        return self._ready

    async def generate(self, job: Job) -> AsyncGenerator[Chunk, None]:
        """Streams the scripted answer; cut at `max_tokens` like a real engine's."""
        self.running += 1
        try:
            ids, finish, delay = self._speak(job.prompt_ids)
            if len(ids) > job.max_tokens:
                ids, finish = ids[: job.max_tokens], "length"
            size = self._options.chunk_tokens
            cached: int | None = 0
            if self._cache is not None:
                cached = self._cache.match(job.prompt_ids)
                self._cache.hold([*job.prompt_ids, *ids])
            queued: float | None = 0.0
            top = job.sampling.top_logprobs
            for at in range(0, len(ids), size):
                piece = ids[at : at + size]
                await asyncio.sleep(delay * len(piece))
                last = at + size >= len(ids)
                logprobs = None if top is None else [self._logprob(token_id, top) for token_id in piece]
                yield Chunk(piece, finish if last else None, cached, logprobs, queued)
                cached = queued = None
            if not ids:
                yield Chunk([], finish, cached, None, queued)
        finally:
            self.running -= 1

    def _logprob(self, token_id: int, top: int) -> SampledLogprob:
        """Made up from the id, the same every time: the sampled token is the most likely, its neighbours in the vocabulary follow."""
        best = -(token_id % 97 + 1) / 100
        others = ((token_id + step) % self._tokenizer.vocab_size for step in range(top))
        return SampledLogprob(self._one(token_id, best), tuple(self._one(other, best - 0.5 * rank) for rank, other in enumerate(others)))

    def _one(self, token_id: int, logprob: float) -> TokenLogprob:
        return TokenLogprob(self._tokenizer.decode([token_id]), logprob, self._tokenizer.token_bytes(token_id))

    def _speak(self, prompt_ids: Sequence[int]) -> tuple[list[int], Literal["stop", "length"], float]:
        """What is said, how it ends, and the seconds each token takes."""
        seen = prompt_ids if self._rules else prompt_ids[-TAIL_TOKENS:]
        prompt = self._tokenizer.decode(list(seen))
        thinking = prompt.rfind("<think>") > max(prompt.rfind("</think>"), prompt.rfind(self._frame.assistant_header))
        repeat = self._repeat(prompt)
        finish: Literal["stop", "length"] = "stop"
        delay = self._options.token_delay_ms
        if repeat is not None:
            say = ("</think>\n\n" if thinking else "") + " word" * repeat
        else:
            say, finish, own_delay = self._scripted(prompt, thinking=thinking)
            delay = delay if own_delay is None else own_delay
        ids = self._tokenizer.encode(say, added=True)
        return ([*ids, self._end_id] if finish == "stop" else ids), finish, delay / 1000

    def _scripted(self, prompt: str, *, thinking: bool) -> tuple[str, Literal["stop", "length"], float | None]:
        """What the first fitting rule says, how it ends, and its own delay."""
        say, finish, delay = ("</think>\n\n" if thinking else "") + FIXED_SENTENCE, "stop", None
        for pattern, rule in self._rules:
            found = pattern.search(prompt)
            if found:
                groups = ("", *found.groups(default=""), *[""] * 9)
                pieces = _GROUP.split(rule.say)
                say = "".join(groups[int(piece)] if place % 2 else piece for place, piece in enumerate(pieces))
                finish, delay = rule.finish, rule.token_delay_ms
                if not thinking and "</think>" in say:
                    say = say.partition("</think>")[2]
                break
        return say, "length" if finish == "length" else "stop", delay

    def _repeat(self, prompt: str) -> int | None:
        """The order in the last user text: behind every past turn, before the header of the turn to come."""
        header = self._frame.assistant_header
        latest = prompt.rpartition(header)[0].rpartition(header)[2]
        text = latest.rpartition(header.replace("assistant", "user"))[2].partition(self._frame.end_of_turn)[0]
        orders = REPEAT.findall(text)
        return int(orders[-1]) if orders else None
