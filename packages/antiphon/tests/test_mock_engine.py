"""The scripted engine: which rule speaks, what it says, and how it ends."""

import asyncio
import json
from pathlib import Path

import pytest

from antiphon.config import Settings
from antiphon.engines.base import Job
from antiphon.engines.mock import MockEngine, MockOptions
from antiphon.engines.mock_script import FIXED_SENTENCE, Rule, load_script
from antiphon.serve import build
from antiphon_turns import Sampling
from antiphon_turns.errors import ConfigError

END = "<|im_end|>"
OPEN = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\n"
CLOSED = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
PAST = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n<think>\nHm.\n</think>\n\nYes.<|im_end|>\n"


@pytest.fixture(scope="module")
def model():
    return build(Settings(engine="mock"))[0]


@pytest.fixture
def play(model):
    """play(prompt, rules, max_tokens=..., **options) -> the chunks of one generation."""

    def chunks(prompt, rules=(), *, max_tokens=10_000, **options):
        engine = MockEngine(model.tokenizer, model.family.frame, rules=[Rule(**rule) for rule in rules], options=MockOptions(**options))

        async def run():
            await engine.start()
            job = Job(
                request_id="r",
                prompt_ids=model.tokenizer.encode(prompt, added=True),
                max_tokens=max_tokens,
                sampling=Sampling(),
                stop_ids=model.stop_ids,
            )
            return [chunk async for chunk in engine.generate(job)]

        made = asyncio.run(run())
        assert engine.running == 0
        assert [chunk.finish for chunk in made[:-1]] == [None] * (len(made) - 1)
        return made

    return chunks


@pytest.fixture
def said(model, play):
    """said(prompt, rules, ...) -> the whole text with its end-of-turn token."""

    def text(prompt, rules=(), **options):
        return model.tokenizer.decode([i for chunk in play(prompt, rules, **options) for i in chunk.ids])

    return text


SAYS = [
    # prompt, rules, what is said
    ("ab", [{"when": "a", "say": "1"}, {"when": "b", "say": "2"}], "1"),
    ("ab", [{"when": "c", "say": "1"}, {"when": "b", "say": "2"}], "2"),
    ("ab", [{"when": "", "say": "any"}], "any"),
    ("a\nb", [{"when": "a.b", "say": "dot spans lines"}], "dot spans lines"),
    ("ab", [{"when": "user\\nab<\\|im_end\\|>", "say": "control tokens are seen"}], "control tokens are seen"),
    ("k=v", [{"when": r"(\w)=(\w)", "say": r"\2=\1"}], "v=k"),
    ("abcdefghi", [{"when": "(a)(b)(c)(d)(e)(f)(g)(h)(i)", "say": r"\9\8\7\6\5\4\3\2\1"}], "ihgfedcba"),
    ("ab", [{"when": "(a)(z)?", "say": r"<\1|\2|\3>"}], "<a||>"),
    ("ab", [{"when": "(a)", "say": "\\n \\0 \\d \\\\ \\g<1> \\x41 \\"}], "\\n \\0 \\d \\\\ \\g<1> \\x41 \\"),
    ("ab", [{"when": "(a)", "say": r"\\1"}], r"\a"),
    ("ab", [{"when": "(a)", "say": r"\12"}], "a2"),
    ("a\\1b", [{"when": r"(\\1)", "say": r"\1"}], r"\1"),
    ("é 日本", [{"when": "(日本)", "say": "\\1 é 🎈"}], "日本 é 🎈"),
    ("ab", [{"when": "", "say": ""}], ""),
]


@pytest.mark.parametrize(("prompt", "rules", "expected"), SAYS)
def test_what_is_said(said, prompt, rules, expected):
    assert said(OPEN.format(prompt), rules) == expected + END


def test_an_open_think_keeps_the_whole_and_a_closed_one_loses_it_up_to_the_first_closer(said):
    rules = [{"when": "", "say": "R\n</think>\n\nT </think> U"}]
    assert said(OPEN.format("x"), rules) == "R\n</think>\n\nT </think> U" + END
    assert said(CLOSED.format("x"), rules) == "\n\nT </think> U" + END
    assert said(CLOSED.format("x"), [{"when": "", "say": "no closer"}]) == "no closer" + END


@pytest.mark.parametrize(
    ("prompt", "open_think"),
    [
        (PAST.format("a") + OPEN.format("b"), True),
        (PAST.format("a") + CLOSED.format("b"), False),
        (CLOSED.format("a") + "<think>\n\n</think>\n\n", False),
        (CLOSED.format("a") + "<think>\nHalf a thought", True),
        (CLOSED.format("say <think>"), False),
        (OPEN.format("say </think>"), True),
    ],
)
def test_what_counts_as_an_open_think(said, prompt, open_think):
    expected = "R\n</think>\n\nT" if open_think else "\n\nT"
    assert said(prompt, [{"when": "", "say": "R\n</think>\n\nT"}]) == expected + END


def test_no_match_and_no_script_give_the_fixed_sentence(said):
    for rules in ([], [{"when": "zzz", "say": "no"}]):
        assert said(OPEN.format("x"), rules) == "</think>\n\n" + FIXED_SENTENCE + END
        assert said(CLOSED.format("x"), rules) == FIXED_SENTENCE + END


@pytest.mark.parametrize("rules", [[], [{"when": "", "say": "a rule"}], [{"when": "REPEAT", "say": "a rule", "finish": "length"}]])
def test_repeat_wins_over_the_rules(said, rules):
    assert said(CLOSED.format("please @@REPEAT:3@@ now"), rules) == " word word word" + END
    assert said(OPEN.format("@@REPEAT:2@@"), rules) == "</think>\n\n word word" + END


def test_repeat_counts_in_the_last_user_text_only(said):
    rules = [{"when": "", "say": "a rule"}]
    assert said(PAST.format("@@REPEAT:3@@") + CLOSED.format("next"), rules) == "a rule" + END
    assert said(PAST.format("@@REPEAT:3@@") + CLOSED.format("@@REPEAT:1@@"), rules) == " word" + END
    assert said("<|im_start|>user\n@@REPEAT:3@@<|im_end|>\n" + CLOSED.format("next"), rules) == "a rule" + END
    assert said("<|im_start|>system\n@@REPEAT:3@@<|im_end|>\n" + CLOSED.format("next"), rules) == "a rule" + END
    assert said("<|im_start|>user\n@@REPEAT:3@@<|im_end|>\n<|im_start|>system\nlate<|im_end|>\n<|im_start|>assistant\n", rules) == (
        " word word word" + END
    )


def test_without_a_script_only_the_tail_of_the_prompt_is_looked_at(said):
    filler = "filler " * 200
    assert said(CLOSED.format(filler + "@@REPEAT:2@@")) == " word word" + END
    assert said(CLOSED.format("@@REPEAT:2@@" + filler)) == FIXED_SENTENCE + END
    assert said(CLOSED.format("@@REPEAT:2@@" + filler), [{"when": "", "say": "a rule"}]) == " word word" + END


def test_repeat_is_as_many_tokens(play):
    ids = [i for chunk in play(CLOSED.format("@@REPEAT:500@@")) for i in chunk.ids]
    assert len(ids) == 501


def test_stop_ends_with_the_end_of_turn_id_and_length_does_not(model, play):
    end = model.tokenizer.id_of(END)
    stopped = play(CLOSED.format("x"), [{"when": "", "say": "word", "finish": "stop"}])
    assert (stopped[-1].ids[-1], stopped[-1].finish) == (end, "stop")
    cut = play(CLOSED.format("x"), [{"when": "", "say": "word", "finish": "length"}])
    assert end not in [i for chunk in cut for i in chunk.ids]
    assert cut[-1].finish == "length"


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_nothing_said_still_ends(play, finish):
    (only,) = play(CLOSED.format("x"), [{"when": "", "say": "", "finish": finish}])
    assert (len(only.ids), only.finish) == (1 if finish == "stop" else 0, finish)


@pytest.mark.parametrize(("size", "sizes"), [(1, [1] * 8), (3, [3, 3, 2]), (8, [8]), (100, [8])])
def test_chunk_size(play, size, sizes):
    made = play(CLOSED.format("@@REPEAT:7@@"), chunk_tokens=size)
    assert [len(chunk.ids) for chunk in made] == sizes
    assert [chunk.cached_tokens for chunk in made] == [0] + [None] * (len(sizes) - 1)


@pytest.mark.parametrize(("limit", "count", "finish"), [(3, 3, "length"), (7, 7, "length"), (8, 8, "stop"), (9, 8, "stop")])
def test_max_tokens_cuts_like_a_real_limit(play, limit, count, finish):
    made = play(CLOSED.format("@@REPEAT:7@@"), max_tokens=limit, chunk_tokens=2)
    assert sum(len(chunk.ids) for chunk in made) == count
    assert made[-1].finish == finish


def test_a_closed_generator_leaves_nothing_running(model):
    engine = MockEngine(model.tokenizer, model.family.frame, options=MockOptions())
    job = Job(request_id="r", prompt_ids=[1], max_tokens=100, sampling=Sampling(), stop_ids=model.stop_ids)

    async def run():
        generation = engine.generate(job)
        await anext(generation)
        assert engine.running == 1
        await generation.aclose()

    asyncio.run(run())
    assert engine.running == 0


def test_ready_between_start_and_close(model):
    engine = MockEngine(model.tokenizer, model.family.frame)

    async def run():
        states = [engine.ready()]
        await engine.start()
        states.append(engine.ready())
        await engine.close()
        return [*states, engine.ready()]

    assert asyncio.run(run()) == [False, True, False]


def test_scripts_are_read_line_by_line(tmp_path):
    path = tmp_path / "script.jsonl"
    path.write_text('{"when": "a", "say": "b"}\n\n  \n{"when": "", "say": "é\\n", "finish": "length"}\n', "utf-8")
    assert load_script(path) == (Rule(when="a", say="b"), Rule(when="", say="é\n", finish="length"))


BAD_SCRIPTS = [
    ('{"when": "a", "say": "b"}\n{nope}', 2, "malformed"),
    ('\n\n{"when": "(", "say": "b"}', 3, ""),
    ('{"when": "a"}', 1, "say"),
    ('{"say": "a"}', 1, "when"),
    ('{"when": "a", "say": "b", "finish": "maybe"}', 1, "maybe"),
    ('{"when": 3, "say": "b"}', 1, "when"),
    ('["a", "b"]', 1, "object"),
]


@pytest.mark.parametrize(("text", "line", "named"), BAD_SCRIPTS)
def test_a_bad_script_names_its_line(tmp_path, text, line, named):
    path = tmp_path / "script.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as raised:
        load_script(path)
    assert f"{path}, line {line}: " in raised.value.message
    assert named in raised.value.message


def test_a_missing_script_is_a_sentence(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read the mock script .*no\.jsonl"):
        load_script(tmp_path / "no.jsonl")


def test_the_acceptance_scripts_of_this_repository_are_valid():
    folder = Path(__file__).parents[3] / "tests" / "agents"
    rules = load_script(folder / "cut_calls.jsonl")
    assert json.loads((folder / "cut_calls.jsonl").read_text().splitlines()[0])["when"] == rules[0].when
    assert rules[-1].when == ""
    assert {rule.finish for rule in rules} == {"stop", "length"}
