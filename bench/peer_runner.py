"""Runs the streaming parsers of another server in an environment of their own, without the server's engine.

usage: PEER_PYTHON bench/peer_runner.py vllm|sglang FOLDER < job.json > figures.json

FOLDER holds the unpacked wheels. Only the modules that parse are taken from it; every other module of the peer, and what only an
engine needs, is replaced by a blank one. This file knows nothing of Antiphon and runs on the standard library.

The job::

    {"tool": an OpenAI tool, "runs": [{"parser": name, "repeats": n, "deltas": [[text, [id]], ...],
                                       "head": n, "tail": n, "vocab": {token: id}}, ...]}

`head` deltas before and `tail` behind those that are timed are fed, too. The answer holds for every run the CPU microseconds per timed
delta, one for each repeat, and the arguments that came out; or what was raised.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

REAL = {
    "vllm": (
        *("vllm.parser", "vllm.tool_parsers", "vllm.reasoning", "vllm.entrypoints.generate.base.protocol", "vllm.exceptions"),
        "vllm.entrypoints.serve.engine.protocol",
        "vllm.envs",
        *("vllm.entrypoints.openai.chat_completion.protocol", "vllm.utils.mistral"),
    ),
    "sglang": ("sglang.srt.function_call", "sglang.srt.parser", "sglang.srt.entrypoints.openai.protocol", "sglang.srt.environ"),
}
# What blank modules must hold, where a parser uses the result.
MISTRAL = {"tool_calls": "[TOOL_CALLS]", "args": "[ARGS]", "call_id": "[CALL_ID]", "begin_think": "[THINK]", "end_think": "[/THINK]"}
GIVEN: dict[str, dict[str, Any]] = {
    "vllm.renderers.chat_utils": {"make_tool_call_id": lambda *args, **options: "call_1"},
    "mistral_common.tokens.tokenizers.base": {
        "SpecialTokens": SimpleNamespace(**{name: SimpleNamespace(value=token) for name, token in MISTRAL.items()})
    },
}
BLANK = ("torch", "transformers", "xgrammar", "openai_harmony", "mistral_common", "numpy", "PIL")


class Meta(type):
    """Classes that have every attribute: another one like themselves."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return blank(name)

    def __iter__(cls) -> Any:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __getitem__(cls, item: Any) -> Any:
        return cls


def blank(name: str) -> Any:
    """A class that can be called, subclassed, subscripted and used as a decorator, and means nothing."""

    def new(cls: type, *args: Any, **options: Any) -> Any:
        plain = len(args) == 1 and not options and callable(args[0]) and cls.__name__ == name
        return args[0] if plain else object.__new__(cls)

    def schema(cls: type, source: Any, handler: Any) -> Any:
        return {"type": "any"}

    members = {
        "__new__": new,
        "__init__": lambda self, *args, **options: None,
        "__call__": lambda self, *args, **options: args[0] if len(args) == 1 and callable(args[0]) else None,
        "__getattr__": lambda self, attribute: blank(attribute)() if not attribute.startswith("__") else _missing(attribute),
        "__bool__": lambda self: False,
        "__iter__": lambda self: iter(()),
        "__get_pydantic_core_schema__": classmethod(schema),
    }
    return Meta(name, (), members)


def _missing(attribute: str) -> Any:
    raise AttributeError(attribute)


class BlankModule(ModuleType):
    """A module that has whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = blank(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Takes the real modules from the folder and blanks for all others of the peer."""

    def __init__(self, peer: str, folder: Path) -> None:
        self._peer = peer
        self._folder = folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        root = name.partition(".")[0]
        if root != self._peer and root not in BLANK:
            return None
        if any(name == real or name.startswith(real + ".") for real in REAL[self._peer]):
            place = self._folder.joinpath(*name.split("."))
            if (place / "__init__.py").is_file():
                return importlib.util.spec_from_file_location(name, place / "__init__.py", submodule_search_locations=[str(place)])
            if place.with_suffix(".py").is_file():
                return importlib.util.spec_from_file_location(name, place.with_suffix(".py"))
            if place.is_dir():
                return importlib.machinery.ModuleSpec(name, self, is_package=True)
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return BlankModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__path__ = []
        module.__dict__.update(GIVEN.get(module.__name__, {}))


class Tokenizer:
    """As much of a tokenizer as parsers ask for: the family's control tokens by name."""

    def __init__(self, vocab: dict[str, int]) -> None:
        self._vocab = vocab
        self._names = {number: token for token, number in vocab.items()}
        self.all_special_tokens = list(vocab)
        self.additional_special_tokens = list(vocab)
        self.eos_token = ""
        self.is_fast = True

    def get_vocab(self) -> dict[str, int]:
        return self._vocab

    def get_added_vocab(self) -> dict[str, int]:
        return self._vocab

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        return "".join(self._names.get(number, "") for number in ids)

    def encode(self, text: str, **options: Any) -> list[int]:
        return [self._vocab[text]] if text in self._vocab else []

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._vocab.get(token)


Piece = tuple[int, str]
"""The number of a call, and a piece of its arguments."""

Feed = tuple[Callable[[str, list[int]], list[Piece]], Callable[[], list[Piece]]]
"""Takes a delta; and the end of the turn."""


def vllm_feed(run: dict[str, Any], tool: dict[str, Any]) -> Feed:
    """The parser that vLLM composes of a tool parser's name, fed as its chat surface does."""
    protocol = importlib.import_module("vllm.entrypoints.openai.chat_completion.protocol")
    manager = importlib.import_module("vllm.parser.parser_manager").ParserManager
    tools = [protocol.ChatCompletionToolsParam(**tool)]
    request = SimpleNamespace(
        tool_choice="auto", tools=tools, include_reasoning=True, messages=[], model="m", stream=True, skip_special_tokens=False
    )
    parser_class = manager.get_parser(tool_parser_name=run["parser"], enable_auto_tools=True)
    parser = parser_class(Tokenizer(run["vocab"]), tools)
    first: list[list[int] | None] = [[]]

    def feed(text: str, ids: list[int], *, finished: bool = False) -> list[Piece]:
        message = parser.parse_delta(text, ids, request, first[0], finished=finished)
        first[0] = None
        calls = message.tool_calls if message is not None else None
        return [(call.index, call.function.arguments) for call in calls or () if call.function and call.function.arguments]

    return feed, lambda: feed("", [], finished=True)


def sglang_feed(run: dict[str, Any], tool: dict[str, Any]) -> Feed:
    """The parser that SGLang has under a name, fed as its chat surface does."""
    protocol = importlib.import_module("sglang.srt.entrypoints.openai.protocol")
    module = importlib.import_module("sglang.srt.function_call.function_call_parser")
    parser = module.FunctionCallParser([protocol.Tool(**tool)], run["parser"])

    def pieces(calls: list[Any]) -> list[Piece]:
        return [(call.tool_index, call.parameters) for call in calls if call.parameters]

    return lambda text, ids: pieces(parser.parse_stream_chunk(text)[1]), lambda: pieces(parser.parse_stream_end()[1])


FEEDS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Feed]] = {"vllm": vllm_feed, "sglang": sglang_feed}


def once(peer: str, run: dict[str, Any], tool: dict[str, Any]) -> tuple[float, str]:
    """Microseconds per timed delta, and the arguments of the first call."""
    feed, finish = FEEDS[peer](run, tool)
    deltas: list[tuple[str, list[int]]] = [(text, ids) for text, ids in run["deltas"]]
    end = len(deltas) - run["tail"]
    found: list[Piece] = []
    for text, ids in deltas[: run["head"]]:
        found += feed(text, ids)
    keep = found.extend
    started = time.process_time()
    for text, ids in deltas[run["head"] : end]:
        keep(feed(text, ids))
    spent = time.process_time() - started
    for text, ids in deltas[end:]:
        found += feed(text, ids)
    found += finish()
    lowest = min((index for index, _ in found), default=0)
    return spent / (end - run["head"]) * 1e6, "".join(text for index, text in found if index == lowest)


def main() -> None:
    """Reads the job, answers it."""
    peer, folder = sys.argv[1:3]
    sys.meta_path.insert(0, Finder(peer, Path(folder)))
    job = json.load(sys.stdin)
    answers: list[dict[str, Any]] = []
    for run in job["runs"]:
        try:
            results = [once(peer, run, job["tool"]) for _ in range(run["repeats"])]
            answers.append({"us": [spent for spent, _ in results], "arguments": results[0][1]})
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a foreign parser raises is its result
            answers.append({"error": f"{type(error).__name__}: {error}"[:200]})
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
