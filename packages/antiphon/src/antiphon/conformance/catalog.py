"""The model catalog: its requests and checks."""

from typing import Any

from antiphon.conformance.asks import ANTHROPIC, OPENAI, UNKNOWN_MODEL, Ask, Request
from antiphon.conformance.exchange import Exchange, answered
from antiphon.conformance.verdict import CLAUDE_CODE, CODEX, SDK_ANTHROPIC, SDK_OPENAI, Check, checker, equal, known, require

PATH = "/v1/models"
CHECKS: list[Check] = []
check = checker(CHECKS)
_SHELLS = ("default", "local", "shell_command", "unified_exec", "disabled")
_VISIBILITIES = ("list", "hide", "none")


def _get(name: str, path: str, *, method: str = "GET", **headers: str) -> Ask:
    def make(scene: Any) -> Request:
        return Request(
            method=method, path=path.format(model=scene.model), headers={key.replace("_", "-"): value for key, value in headers.items()}
        )

    return Ask(name=name, make=make)


ASKS = (
    _get("k.models", PATH, **OPENAI),
    _get("k.models.anthropic", PATH, **ANTHROPIC),
    _get("k.models.claude", f"{PATH}?limit=1000", user_agent="claude-code/2.1.332", **OPENAI),
    _get("k.models.codex", f"{PATH}?client_version=0.171.0", user_agent="codex_exec/0.171.0", **OPENAI),
    _get("k.model", f"{PATH}/{{model}}", **OPENAI),
    _get("k.model.anthropic", f"{PATH}/{{model}}", **ANTHROPIC),
    _get("k.model.unknown", f"{PATH}/{UNKNOWN_MODEL}", **OPENAI),
    _get("k.head", "/", method="HEAD", user_agent="Bun/1.4.0"),
)


def entries(exchange: Exchange) -> list[dict[str, Any]]:
    """The `data` list of a catalog, not empty."""
    found = answered(exchange).json()["data"]
    require(found, "the catalog is empty")
    return list(found)


def context_length(entry: dict[str, Any]) -> int | None:
    """The context length in tokens, under whichever key the server tells it."""
    keys = ("max_input_tokens", "context_window", "max_model_len", "context_length")
    return next((entry[key] for key in keys if type(entry.get(key)) is int), None)


@check(
    "K01", "GET /v1/models lists the models as OpenAI does", why="SDKs and pickers read data[].id", breaks=(SDK_OPENAI,), asks=("k.models",)
)
def openai_list(exchange: Exchange) -> None:
    equal(answered(exchange).json()["object"], "list", "the object")
    for entry in entries(exchange):
        require(isinstance(entry["id"], str) and entry["id"], f"the id is {entry['id']!r}")
        equal(entry["object"], "model", "the object of an entry")
        require(
            type(entry["created"]) is int and isinstance(entry["owned_by"], str), f"an entry without created or owned_by: {entry['id']}"
        )


def _anthropic_list(exchange: Exchange) -> None:
    body = answered(exchange).json()
    for entry in entries(exchange):
        equal(entry.get("type"), "model", "the type of an entry")
        require(
            isinstance(entry["display_name"], str) and isinstance(entry["created_at"], str), f"no display_name or created_at: {entry['id']}"
        )
    equal((body["first_id"], body["last_id"]), (body["data"][0]["id"], body["data"][-1]["id"]), "first_id and last_id")
    require(type(body["has_more"]) is bool, f"has_more is {body['has_more']!r}")


@check(
    "K02",
    "with anthropic-version the list has Anthropic's shape",
    why="the SDK pages by has_more, first_id, last_id",
    breaks=(SDK_ANTHROPIC,),
    asks=("k.models.anthropic",),
)
def anthropic_list(exchange: Exchange) -> None:
    _anthropic_list(exchange)


@check(
    "K03",
    "without it the one body serves Claude Code as well",
    why="Claude Code asks with a bearer token and no version header",
    breaks=(CLAUDE_CODE,),
    asks=("k.models.claude",),
)
def claude_list(exchange: Exchange) -> None:
    _anthropic_list(exchange)


@check(
    "K04",
    "the same body has Codex's `models` with every field it needs",
    why="an OpenAI list alone is a decode error and falls back to weak metadata",
    breaks=(CODEX,),
    asks=("k.models.codex",),
)
def codex_list(exchange: Exchange) -> None:
    entries(exchange)
    models = exchange.json().get("models")
    require(models, "the body has no `models`")
    for model in models:
        for key in ("slug", "display_name"):
            require(isinstance(model[key], str) and model[key], f"{key} is {model[key]!r}")
        for key in ("supported_reasoning_levels", "experimental_supported_tools"):
            require(isinstance(model[key], list), f"{key} is no list")
        for key in ("supported_in_api", "support_verbosity"):
            require(type(model[key]) is bool, f"{key} is {model[key]!r}")
        require(type(model["priority"]) is int, f"priority is {model['priority']!r}")
        instructions = model.get("base_instructions") or (model.get("model_messages") or {}).get("instructions_template")
        require(instructions, "no base_instructions")


@check(
    "K05",
    "Codex's entries use only values it knows",
    why="one unknown value loses the whole catalog",
    breaks=(CODEX,),
    asks=("k.models.codex",),
)
def codex_values(exchange: Exchange) -> None:
    models = answered(exchange).json().get("models")
    known(models, "the body has no `models`")
    for model in models:
        require(model["shell_type"] in _SHELLS, f"shell_type is {model['shell_type']!r}")
        require(model["visibility"] in _VISIBILITIES, f"visibility is {model['visibility']!r}")
        policy = model["truncation_policy"]
        require(policy["mode"] in ("bytes", "tokens") and type(policy["limit"]) is int, f"truncation_policy is {policy}")
        for level in model["supported_reasoning_levels"]:
            require({"effort", "description"} <= {*level}, f"a reasoning level is {level}")
        require(
            model.get("apply_patch_tool_type") in (None, "freeform"), f"apply_patch_tool_type is {model.get('apply_patch_tool_type')!r}"
        )


@check(
    "K06",
    "the context length is told",
    why="clients that do not know it assume 200,000 tokens or a million, and compact too late",
    breaks=(CLAUDE_CODE, CODEX),
    asks=("k.models",),
)
def context_told(exchange: Exchange) -> None:
    for entry in entries(exchange):
        require(context_length(entry), f"no context length for {entry['id']}")


@check(
    "K07",
    "GET /v1/models/{id} answers with that model",
    why="SDKs look a model up before use",
    breaks=(SDK_OPENAI,),
    asks=("k.models", "k.model"),
)
def one_model(listed: Exchange, exchange: Exchange) -> None:
    body = answered(exchange).json()
    require(body["id"] in [entry["id"] for entry in entries(listed)], f"the id is {body['id']!r}")
    equal(body["object"], "model", "the object")


@check(
    "K08",
    "the same in Anthropic's shape",
    why="the SDK reads type and display_name",
    breaks=(SDK_ANTHROPIC,),
    asks=("k.models", "k.model.anthropic"),
)
def one_model_anthropic(listed: Exchange, exchange: Exchange) -> None:
    body = answered(exchange).json()
    require(body["id"] in [entry["id"] for entry in entries(listed)], f"the id is {body['id']!r}")
    equal(body["type"], "model", "the type")
    require(isinstance(body["display_name"], str), "no display_name")


@check(
    "K09",
    "an unknown model is a 404 with a JSON error",
    why="a 200 or plain text hides the typing error",
    breaks=(SDK_OPENAI,),
    asks=("k.model.unknown",),
)
def unknown_model(exchange: Exchange) -> None:
    answered(exchange, 404)
    error = exchange.json().get("error")
    require(isinstance(error, dict) and error.get("message"), f"the body has no error object with a message: {exchange.excerpt()}")


@check(
    "K10",
    "HEAD / is answered",
    why="Claude Code opens its connection with it; any status but a broken line will do",
    breaks=(CLAUDE_CODE,),
    asks=("k.head",),
)
def head(exchange: Exchange) -> None:
    known(not exchange.failure or exchange.status == 0, exchange.failure)
    require(exchange.status and exchange.status < 500, f"HEAD / answered {exchange.status or exchange.failure}")
