"""What the model is made to say: turns as ordered segments, each with a plain prompt for servers whose model cannot be steered."""

import msgspec

from antiphon.conformance.pieces import Piece
from antiphon_turns import CallSegment, ReasoningSegment, Segment, TextSegment

RUN, TIME, WRITE, PATCH = "run_command", "get_time", "write_file", "apply_patch"
NAMESPACE, READ = "mcp__fs", "read"
STOP_STRING = "END"
PATCH_TEXT = "*** Begin Patch\n*** Add File: hi.txt\n+hello\n*** End Patch"
FILE_TEXT = '    def f():\n        return "&lt;b&gt; &amp; <i>"'
JSON_TEXT = '{"title": "A short title", "size": 3}'
UNICODE_TEXT = "na\u00efve \u65e5\u672c\u8a9e \U0001f469\u200d\U0001f680 \u2713 done"
COUNTED = " ".join(f"number{n}" for n in range(1, 61))
SLOW_WORDS = 80


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """`plain` asks an unsteered model for about the same. `delay_ms` is how long each token takes. `prompt_names_tool`: the
    call's name is not ours to choose, it is the one that the prompt showed for a namespaced tool."""

    name: str
    plain: str
    segments: tuple[Segment, ...]
    delay_ms: float = 0.0
    prompt_names_tool: bool = False

    def pieces(self) -> list[Piece]:
        """The segments as they should come out of a server."""
        return [_piece(segment) for segment in self.segments]


def _piece(segment: Segment) -> Piece:
    if isinstance(segment, CallSegment):
        return Piece(kind="call", name=segment.name, arguments=segment.arguments)
    return Piece(kind="text" if isinstance(segment, TextSegment) else "reasoning", text=segment.text)


def _think(text: str) -> Segment:
    return ReasoningSegment(text)


def _run(command: str) -> Segment:
    return _call(RUN, {"command": command})


def _call(name: str, arguments: dict[str, object]) -> Segment:
    return CallSegment(name, msgspec.json.encode(arguments).decode())


_EXACT = f'{{"path": "a.py", "content": {msgspec.json.encode(FILE_TEXT).decode()}, "count": 12345678901234567890, "ratio": 1.10}}'

TEXT = Saying(
    name="text",
    plain="Greet me in one short sentence.",
    segments=(_think("A greeting is wanted."), TextSegment("Hello there, all is well.")),
)
CALL = Saying(
    name="call",
    plain="Say one short sentence, then run the command `echo one` with the tool run_command.",
    segments=(_think("I will run it."), TextSegment("Running it now."), _run("echo one")),
)
ZERO = Saying(name="zero", plain="Call the tool get_time.", segments=(_think("The clock knows."), _call(TIME, {})))
PARALLEL = Saying(
    name="parallel",
    plain="Call run_command twice in one answer: `echo one` and `echo two`.",
    segments=(_think("Two at once."), _run("echo one"), _run("echo two")),
)
INTERLEAVED = Saying(
    name="interleaved",
    plain="Say a sentence, run `echo one`, think again, run `echo two`, say a last sentence, all in one answer.",
    segments=(
        _think("First I look."),
        TextSegment("Looking."),
        _run("echo one"),
        _think("Then I think again."),
        _run("echo two"),
        TextSegment("Both are under way."),
    ),
)
STOPPED = Saying(
    name="stopped",
    plain=f"Answer with: Answer one. {STOP_STRING} more words",
    segments=(_think("One answer."), TextSegment(f"Answer one. {STOP_STRING} more words")),
)
STOP_NAMED = Saying(
    name="stop_named",
    plain=f"Think about the word {STOP_STRING}, then greet me.",
    segments=(_think(f"I must not write {STOP_STRING} yet."), TextSegment("Hello there.")),
)
LONG = Saying(name="long", plain="Count from number1 to number60.", segments=(_think("Counting."), TextSegment(COUNTED)))
CUT = Saying(
    name="cut",
    plain="Call run_command with an echo of the first two hundred words of a story.",
    segments=(_think("Long."), _run("echo " + " ".join(f"word{n}" for n in range(300)))),
)
UNICODE = Saying(
    name="unicode",
    plain=f"Repeat exactly: {UNICODE_TEXT}",
    segments=(_think("\u8003\u3048\u308b"), TextSegment(UNICODE_TEXT)),
)
EXACT = Saying(
    name="exact",
    plain="Write a small Python function into a.py with write_file, count 12345678901234567890, ratio 1.10.",
    segments=(_think("Every byte counts."), CallSegment(WRITE, _EXACT)),
)
STRUCTURED = Saying(
    name="structured",
    plain="Answer only with JSON: a title and a size.",
    segments=(_think("As JSON."), TextSegment(JSON_TEXT)),
)
PATCHED = Saying(
    name="patched",
    plain="Add the file hi.txt with apply_patch.",
    segments=(_think("A patch."), _call(PATCH, {"input": PATCH_TEXT})),
)
NAMESPACED = Saying(
    name="namespaced",
    plain="Read the file a with the tool read.",
    segments=(_think("Reading."), _call(READ, {"path": "a"})),
    prompt_names_tool=True,
)
SUMMARY = Saying(
    name="summary",
    plain="Summarise the conversation.",
    segments=(_think("What matters?"), TextSegment("They talked for long; all is well.")),
)
LEAD = Saying(
    name="lead",
    plain="Run `echo one` with run_command, then say a few long sentences in the same answer.",
    segments=(_think("Call first."), _run("echo one"), TextSegment(" ".join(f"later{n}" for n in range(20)))),
    delay_ms=30.0,
)


def slow(silence: float) -> Saying:
    """A call whose arguments take half as long again as a client may be left in silence (seconds)."""
    words = " ".join(f"slow{n}" for n in range(SLOW_WORDS))
    return Saying(
        name="slow",
        plain="Call run_command with an echo of a very long story.",
        segments=(_think("Wait."), _run(f"echo {words}")),
        # At least two tokens a word: the word, its number, often a space.
        delay_ms=1500 * silence / (2 * SLOW_WORDS),
    )


ALL = (
    TEXT,
    CALL,
    ZERO,
    PARALLEL,
    INTERLEAVED,
    STOPPED,
    STOP_NAMED,
    LONG,
    CUT,
    UNICODE,
    EXACT,
    STRUCTURED,
    PATCHED,
    NAMESPACED,
    SUMMARY,
    LEAD,
)


def table(silence: float) -> dict[str, Saying]:
    """Every saying by name."""
    return {saying.name: saying for saying in (*ALL, slow(silence))}
