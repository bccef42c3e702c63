"""Tokenizers, chat templates and prompts that clients cannot inject control tokens into."""

from antiphon_tokenizers.certain import certain_ids
from antiphon_tokenizers.detokenizer import Detokenizer
from antiphon_tokenizers.encode import check_size, encode, pack
from antiphon_tokenizers.files import ModelFiles, load_model_files
from antiphon_tokenizers.probe import Abilities
from antiphon_tokenizers.renderer import Rendered, Renderer
from antiphon_tokenizers.runcache import RunCache
from antiphon_tokenizers.template import ChatTemplate
from antiphon_tokenizers.tokenizer import Tokenizer

__all__ = [
    "Abilities",
    "ChatTemplate",
    "Detokenizer",
    "ModelFiles",
    "Rendered",
    "Renderer",
    "RunCache",
    "Tokenizer",
    "certain_ids",
    "check_size",
    "encode",
    "load_model_files",
    "pack",
]
