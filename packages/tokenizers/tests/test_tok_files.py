"""GGUF files and model folders."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers import ModelFiles, load_model_files
from antiphon_turns.errors import ConfigError

GOLDEN = json.loads((Path(__file__).parent / "golden_smollm2_ids.json").read_text(encoding="utf-8"))


def test_default_model_facts(smollm: ModelFiles) -> None:
    assert smollm.name == "SmolLM2-135M-Instruct"
    assert smollm.architectures == ("llama",)
    assert smollm.context_length == 8192
    assert (smollm.bos_token, smollm.eos_token, smollm.eos_ids) == ("<|im_start|>", "<|im_end|>", frozenset({2}))
    assert smollm.chat_template is not None and "add_generation_prompt" in smollm.chat_template
    assert smollm.tokenizer.vocab_size == 49152
    assert smollm.tokenizer.splittable and smollm.tokenizer.note is None
    assert len(smollm.tokenizer.control_tokens) == 17


@pytest.mark.parametrize("case", GOLDEN, ids=range(len(GOLDEN)))
def test_ids_are_those_of_llama_cpp(smollm: ModelFiles, case: dict[str, object]) -> None:
    text = str(case["text"])
    assert smollm.tokenizer.encode(text, added=True) == case["special"]
    assert smollm.tokenizer.encode(text, added=False) == case["plain"]
    assert smollm.tokenizer.decode(case["plain"]) == text  # type: ignore[arg-type]


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _gguf(**changes: object) -> bytes:
    """A GGUF with a five-token vocabulary; `changes` replace pairs by the last word of their key."""
    pairs: dict[str, object] = {
        "general.architecture": "tiny",
        "tiny.context_length": 64,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": ["a", "b", "ab", "<s>", "<x>"],
        "tokenizer.ggml.token_type": [1, 1, 1, 3, 4],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.eos_token_id": 3,
    }
    pairs |= {key: changes[word] for key in pairs if (word := key.rsplit(".", 1)[1]) in changes}
    out = b""
    for key, value in pairs.items():
        out += _string(key)
        if isinstance(value, str):
            out += struct.pack("<I", 8) + _string(value)
        elif isinstance(value, int):
            out += struct.pack("<II", 4, value)
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            out += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_string, value))
        elif isinstance(value, list):
            out += struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return struct.pack("<4sIQQ", b"GGUF", 3, 0, len(pairs)) + out


def test_small_gguf(tmp_path: Path) -> None:
    file = tmp_path / "tiny-Q4_K_M.gguf"
    file.write_bytes(_gguf())
    found = load_model_files(file)
    assert (found.name, found.context_length, found.eos_token, found.chat_template) == ("tiny", 64, "<s>", None)
    assert found.tokenizer.encode("ab<x><s>", added=True) == [2, 4, 3]
    assert found.tokenizer.encode("ab", added=False) == [2]
    assert dict(found.tokenizer.added_tokens) == {"<s>": 3, "<x>": 4}
    assert load_model_files(tmp_path).name == "tiny"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (_gguf(pre="tekken"), "pre-tokenizer 'tekken'.*tokenizer.json"),
        (_gguf(model="llama"), "kind 'llama'.*tokenizer.json"),
        (_gguf(tokens=[]), "no vocabulary"),
        (_gguf(merges=["a z"]), "do not fit together"),
        (_gguf()[:150], "damaged"),
        (b"GGUF\x00\x00\x00\x03" + bytes(16), "version"),
        (b"<html>not found</html>", "does not begin like"),
        (b"", "cannot be read"),
    ],
)
def test_bad_gguf_says_what_to_do(tmp_path: Path, content: bytes, says: str) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        load_model_files(file)


def test_bad_paths(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load_model_files(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"holds no tokenizer\.json"):
        load_model_files(tmp_path)
    (tmp_path / "x.bin").write_bytes(b"x")
    with pytest.raises(ConfigError, match="neither a folder nor"):
        load_model_files(tmp_path / "x.bin")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be read as a tokenizer"):
        load_model_files(tmp_path)


def _folder(path: Path, fast: FastTokenizer, **files: object) -> Path:
    fast.save(str(path / "tokenizer.json"))
    for name, value in files.items():
        (path / f"{name}.json").write_text(json.dumps(value))
    return path


def test_folder(tmp_path: Path, byte_tokenizer: Callable[..., FastTokenizer]) -> None:
    folder = _folder(
        tmp_path,
        byte_tokenizer(),
        tokenizer_config={"eos_token": {"content": "<|im_end|>"}, "chat_template": "T", "model_max_length": 1e30},
        special_tokens_map={"bos_token": "<|im_start|>"},
        config={"architectures": ["QzForCausalLM"], "max_position_embeddings": 4096, "eos_token_id": 7},
        generation_config={"eos_token_id": [257, 3]},
    )
    found = load_model_files(str(folder))
    assert (found.name, found.context_length, found.architectures) == (tmp_path.name, 4096, ("QzForCausalLM",))
    assert (found.bos_token, found.eos_token, found.chat_template) == ("<|im_start|>", "<|im_end|>", "T")
    assert found.eos_ids == frozenset({3, 257})
    assert found.tokenizer.id_of("<think>") == 258
    assert found.tokenizer.id_of("nothing") is None
    (folder / "chat_template.jinja").write_text("from the file")
    assert load_model_files(folder).chat_template == "from the file"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ([{"name": "default", "template": "D"}, {"name": "tool_use", "template": "U"}], "U"),
        ([{"name": "default", "template": "D"}], "D"),
        ([], None),
        (None, None),
    ],
)
def test_named_templates(tmp_path: Path, byte_tokenizer: Callable[..., FastTokenizer], template: object, expected: str | None) -> None:
    config = {"text_config": {"max_position_embeddings": 99}, "eos_token_id": 5}
    found = load_model_files(_folder(tmp_path, byte_tokenizer(), tokenizer_config={"chat_template": template}, config=config))
    assert found.chat_template == expected
    assert (found.context_length, found.eos_ids) == (99, frozenset({5}))


def test_hub_cache_folder_is_named_after_the_repository(tmp_path: Path, byte_tokenizer: Callable[..., FastTokenizer]) -> None:
    folder = tmp_path / "models--org--small" / "snapshots" / "abc"
    folder.mkdir(parents=True)
    assert load_model_files(_folder(folder, byte_tokenizer())).name == "org/small"


def test_fingerprint_tells_vocabularies_apart(tmp_path: Path, byte_tokenizer: Callable[..., FastTokenizer]) -> None:
    first = load_model_files(_folder(tmp_path, byte_tokenizer())).tokenizer
    again = load_model_files(tmp_path).tokenizer
    other = load_model_files(_folder(tmp_path, byte_tokenizer(AddedToken("<new>", normalized=False)))).tokenizer
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert len(first.fingerprint) == 64
