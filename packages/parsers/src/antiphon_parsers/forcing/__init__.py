"""Grammars that hold a model to a call format or a schema; see `calls`, `output`, and the lowerings `lark`, `gbnf`, `structural_tag`."""

from antiphon_parsers.forcing.calls import Forced, call_grammar, force_argument, force_calls
from antiphon_parsers.forcing.forms import CallFormat
from antiphon_parsers.forcing.gbnf import lower_gbnf
from antiphon_parsers.forcing.lark import lower_lark
from antiphon_parsers.forcing.output import force_output, output_grammar

__all__ = [
    "CallFormat",
    "Forced",
    "call_grammar",
    "force_argument",
    "force_calls",
    "force_output",
    "lower_gbnf",
    "lower_lark",
    "output_grammar",
]
