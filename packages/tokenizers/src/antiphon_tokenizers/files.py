"""What a model folder or a GGUF file says about tokenizer, template and limits."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from tokenizers import Tokenizer as FastTokenizer

from antiphon_tokenizers.gguf import build_tokenizer, read_metadata
from antiphon_tokenizers.ranks import read_tekken, read_tiktoken
from antiphon_tokenizers.tokenizer import Tokenizer
from antiphon_turns.errors import ConfigError

_QUANTIZATION = re.compile(r"[._-](?:UD-)?(?:I?Q\d\w*|[BF]?F?16|F32|BF16|MXFP4\w*)$", re.IGNORECASE)


class ModelFiles(msgspec.Struct, frozen=True, kw_only=True):
    """A model as its files describe it. `context_length` is in tokens, None when the files do not say.
    `eos_ids` are the ids that end generation by the files' own word; a family may add more. `response_template` is the output
    format as the model declares it, `response_schema` says that there is one in the older form. `kv_bytes_per_token`: what a token of
    context takes of an engine's memory at 16 bits a value, None when the files do not say."""

    name: str
    path: Path
    tokenizer: Tokenizer
    chat_template: str | None = None
    architectures: tuple[str, ...] = ()
    context_length: int | None = None
    bos_token: str | None = None
    eos_token: str | None = None
    eos_ids: frozenset[int] = frozenset()
    response_template: dict[str, Any] | None = None
    response_schema: bool = False
    kv_bytes_per_token: int | None = None


def load_model_files(path: str | Path) -> ModelFiles:
    """Reads a folder with tokenizer.json (Hugging Face layout), tekken.json or tiktoken.model, or one GGUF file; weights are not read.

    Raises ConfigError with a sentence that says what to do.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _from_folder(path)
    if path.suffix.lower() == ".gguf" and path.is_file():
        return _from_gguf(path)
    if not path.exists():
        raise ConfigError(f"{path} does not exist; --model-path names a model folder or a .gguf file")
    raise ConfigError(f"{path} is neither a folder nor a .gguf file; --model-path takes one of the two")


def _from_gguf(path: Path) -> ModelFiles:
    metadata = read_metadata(path)
    tokens: list[str] = metadata.get("tokenizer.ggml.tokens") or []
    tokenizer = Tokenizer(build_tokenizer(metadata, path))
    architecture = metadata.get("general.architecture")

    def token(key: str) -> str | None:
        index = metadata.get(f"tokenizer.ggml.{key}_token_id")
        return tokens[index] if isinstance(index, int) and 0 <= index < len(tokens) else None

    ends = (metadata.get(f"tokenizer.ggml.{key}_token_id") for key in ("eos", "eot", "eom"))
    return ModelFiles(
        name=_QUANTIZATION.sub("", path.stem),
        path=path,
        tokenizer=tokenizer,
        chat_template=metadata.get("tokenizer.chat_template"),
        architectures=(architecture,) if architecture else (),
        context_length=metadata.get(f"{architecture}.context_length"),
        bos_token=token("bos"),
        eos_token=token("eos"),
        eos_ids=frozenset(index for index in ends if isinstance(index, int)),
        kv_bytes_per_token=_kv_bytes(metadata, architecture),
    )


def _kv_bytes(metadata: dict[str, Any], architecture: str | None) -> int | None:
    """A key and a value for each layer and head, two bytes a number. Source: the key names of the GGUF specification."""

    def number(key: str) -> Any:
        return metadata.get(f"{architecture}.{key}")

    layers, heads, width = number("block_count"), number("attention.head_count"), number("embedding_length")
    kv_heads = number("attention.head_count_kv") or heads
    if not all(isinstance(value, int) and value > 0 for value in (layers, heads, width)):
        return None
    in_all = sum(kv_heads) if isinstance(kv_heads, list) else kv_heads * layers
    key = number("attention.key_length") or width // heads
    value = number("attention.value_length") or width // heads
    return int(in_all * (key + value) * 2)


def _from_folder(folder: Path) -> ModelFiles:
    settings = _read_object(folder / "tokenizer_config.json")
    vocabulary = _folder_tokenizer(folder, settings)
    if vocabulary is None:
        single = sorted(folder.glob("*.gguf"))
        if len(single) == 1:
            return _from_gguf(single[0])
        hint = f"; name one of its {len(single)} .gguf files instead" if single else "; download the model's tokenizer.json into it"
        raise ConfigError(f"{folder} holds no tokenizer.json, tekken.json or tiktoken.model{hint}")
    tokenizer = Tokenizer(vocabulary)
    special = _read_object(folder / "special_tokens_map.json")
    config = _read_object(folder / "config.json")
    generation = _read_object(folder / "generation_config.json")
    bos, eos = (_token_text(settings.get(key)) or _token_text(special.get(key)) for key in ("bos_token", "eos_token"))
    ends = _id_set(generation.get("eos_token_id")) or _id_set(config.get("eos_token_id"))
    eos_id = tokenizer.id_of(eos) if eos is not None else None
    declaration = settings.get("response_template")
    return ModelFiles(
        name=_folder_name(folder),
        path=folder,
        tokenizer=tokenizer,
        chat_template=_folder_template(folder, settings),
        architectures=tuple(_strings(config.get("architectures"))),
        context_length=_context_length(config, settings),
        bos_token=bos,
        eos_token=eos,
        eos_ids=ends if eos_id is None else ends | {eos_id},
        response_template=declaration if isinstance(declaration, dict) else None,
        response_schema="response_schema" in settings,
    )


def _folder_tokenizer(folder: Path, settings: dict[str, Any]) -> FastTokenizer | None:
    """The first of the three forms that the folder has."""
    if (folder / "tokenizer.json").is_file():
        return _read_tokenizer(folder / "tokenizer.json")
    if (folder / "tekken.json").is_file():
        return read_tekken(folder / "tekken.json")
    if (folder / "tiktoken.model").is_file():
        return read_tiktoken(folder / "tiktoken.model", settings)
    return None


def _read_tokenizer(path: Path) -> FastTokenizer:
    try:
        return FastTokenizer.from_file(str(path))
    except Exception as error:
        # The library raises bare Exception, and nothing narrower, for a bad file.
        if type(error) is not Exception:
            raise
        raise ConfigError(f"{path} cannot be read as a tokenizer: {error}; download it again") from error


def _read_object(path: Path) -> dict[str, Any]:
    """A JSON file's object; {} when there is no such file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _folder_template(folder: Path, settings: dict[str, Any]) -> str | None:
    """chat_template.jinja wins over tokenizer_config.json, as in Hugging Face's library. Of several named
    templates the one for tools is taken: agents bring tools, and it serves the rest too."""
    try:
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    except FileNotFoundError:
        pass
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{folder / 'chat_template.jinja'} cannot be read: {error}") from error
    template = settings.get("chat_template")
    if isinstance(template, list):
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("tool_use") or named.get("default")
    return template if isinstance(template, str) else None


def _folder_name(folder: Path) -> str:
    """The folder's name; for the Hugging Face cache layout the repository's."""
    parts = folder.absolute().parts
    if len(parts) >= 3 and parts[-2] == "snapshots" and parts[-3].startswith("models--"):
        return parts[-3].removeprefix("models--").replace("--", "/")
    return parts[-1]


def _context_length(config: dict[str, Any], settings: dict[str, Any]) -> int | None:
    text = config.get("text_config")
    length = config.get("max_position_embeddings") or (text.get("max_position_embeddings") if isinstance(text, dict) else None)
    # Files without a limit write a number of 30 digits here.
    fallback = settings.get("model_max_length")
    if not isinstance(length, int) and isinstance(fallback, int | float) and fallback < 1e9:
        length = int(fallback)
    return length if isinstance(length, int) else None


def _token_text(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _id_set(value: Any) -> frozenset[int]:
    values: Iterable[Any] = value if isinstance(value, list) else [value]
    return frozenset(item for item in values if isinstance(item, int))


def _strings(value: Any) -> Iterable[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
