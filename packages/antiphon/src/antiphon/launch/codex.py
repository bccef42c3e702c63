"""Codex. Facts measured with 0.171 (docs/clients/codex.md)."""

import json

from antiphon.launch.plan import Client, ConfigFile, Plan, Target, json_text

KEY_VARIABLE = "ANTIPHON_API_KEY"
PROVIDER = "antiphon"


def settings(target: Target) -> dict[str, str]:
    """Configuration keys and their TOML values. They go on the command line, so that config.toml stays Codex's own: it keeps there which
    folders the user trusts. JSON strings are TOML strings."""
    provider = f"model_providers.{PROVIDER}"
    return {
        "model": json.dumps(target.model),
        "model_provider": json.dumps(PROVIDER),
        "model_catalog_json": json.dumps(str(target.folder / "models.json")),
        f"{provider}.name": '"Antiphon"',
        f"{provider}.base_url": json.dumps(f"{target.url}/v1"),
        f"{provider}.wire_api": '"responses"',
        f"{provider}.env_key": json.dumps(KEY_VARIABLE),
        "check_for_update_on_startup": "false",
        "analytics.enabled": "false",
    }


def plan(target: Target) -> Plan:
    """The catalog goes into a file, because Codex asks a provider for it only where a token helper is configured."""
    arguments = [word for key, value in settings(target).items() for word in ("-c", f"{key}={value}")]
    return Plan(
        environment={"CODEX_HOME": str(target.folder), KEY_VARIABLE: target.key},
        files=(ConfigFile(target.folder / "models.json", json_text({"models": [target.entry]})),),
        arguments=tuple(arguments),
    )


CODEX = Client(
    name="codex",
    title="Codex",
    program="codex",
    install="npm install -g @openai/codex",
    least_context=16_384,
    wires=("responses",),
    plan=plan,
)
