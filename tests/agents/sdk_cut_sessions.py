"""One tool session of one vendor SDK, as an application would hold it, for scripts/agents_cut.sh.

usage: sdk_cut_sessions.py BASE_URL SESSION      with PROMPT (and MODEL) in the environment

The application runs every call the SDK hands it that fits the tool's schema, whatever the stop reason says, and tells
the model of the others: the most trusting application that still looks at its tools' arguments. Calls run in the
working folder. Prints what `run_<client>.sh` prints; exit status 0 only if a tool ran and the final text arrived.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

BASE = sys.argv[1].rstrip("/")
MODEL = os.environ.get("MODEL", "antiphon-mock")
PROMPT = os.environ["PROMPT"]
KEY = "sk-local-test"
TURNS = 20
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
TOOL = {"name": "bash", "description": "runs a shell command", "input_schema": SCHEMA}
FUNCTION = {"type": "function", "function": {"name": "bash", "description": "runs a shell command", "parameters": SCHEMA}}


def shell(command: str) -> str:
    """The command's output."""
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False).stdout


def use(arguments: object) -> tuple[str, bool]:
    """(result, whether it is an error) of a call of the tool."""
    command = arguments.get("command") if isinstance(arguments, dict) else None
    if not isinstance(command, str):
        return "invalid arguments: `command` must be a string", True
    return shell(command), False


def anthropic_session(*, stream: bool) -> str:
    """Messages, by hand."""
    import anthropic

    client = anthropic.Anthropic(base_url=BASE, api_key=KEY)
    history: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(TURNS):
        asked: dict[str, Any] = {"model": MODEL, "max_tokens": 2000, "tools": [TOOL], "messages": history}
        if stream:
            with client.messages.stream(thinking={"type": "enabled", "budget_tokens": 1024}, **asked) as live:
                message = live.get_final_message()
        else:
            message = client.messages.create(**asked)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        results = []
        for call in calls:
            text, failed = use(call.input)
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": text, "is_error": failed})
        history += [
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]},
            {"role": "user", "content": results},
        ]
    return "too many turns"


def anthropic_tool_runner() -> str:
    """Messages, with the SDK's own loop."""
    import anthropic

    @anthropic.beta_tool
    def bash(command: str) -> str:
        """Runs a shell command.

        Args:
            command: what to run
        """
        return shell(command)

    client = anthropic.Anthropic(base_url=BASE, api_key=KEY)
    runner = client.beta.messages.tool_runner(
        model=MODEL,
        max_tokens=2000,
        max_iterations=TURNS,
        tools=[bash],
        messages=[{"role": "user", "content": PROMPT}],
        stream=True,
    )
    text = ""
    for live in runner:
        text = "".join(block.text for block in live.get_final_message().content if block.type == "text")
    return text


def openai_session(*, stream: bool) -> str:
    """Chat Completions, by hand."""
    import openai

    client = openai.OpenAI(base_url=BASE + "/v1", api_key=KEY)
    history: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in range(TURNS):
        asked: dict[str, Any] = {"model": MODEL, "messages": history, "tools": [FUNCTION]}
        if stream:
            with client.chat.completions.stream(**asked) as live:
                for _event in live:
                    pass
                message = live.get_final_completion().choices[0].message
        else:
            message = client.chat.completions.create(**asked).choices[0].message
        if not message.tool_calls:
            return message.content or ""
        history.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            history.append({"role": "tool", "tool_call_id": call.id, "content": use(json.loads(call.function.arguments))[0]})
    return "too many turns"


def openai_responses(*, stream: bool) -> str:
    """Responses, by hand."""
    import openai

    client = openai.OpenAI(base_url=BASE + "/v1", api_key=KEY)
    history: list[Any] = [{"role": "user", "content": PROMPT}]
    tool = {"type": "function", "name": "bash", "description": "runs a shell command", "parameters": SCHEMA, "strict": False}
    for _ in range(TURNS):
        asked: dict[str, Any] = {"model": MODEL, "input": history, "tools": [tool], "store": False}
        asked["include"] = ["reasoning.encrypted_content"]
        if stream:
            with client.responses.stream(**asked) as live:
                for _event in live:
                    pass
                response = live.get_final_response()
        else:
            response = client.responses.create(**asked)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        history += [item.model_dump(exclude_none=True) for item in response.output]
        for call in calls:
            history.append({"type": "function_call_output", "call_id": call.call_id, "output": use(json.loads(call.arguments))[0]})
    return "too many turns"


def openai_agents(*, stream: bool, responses: bool) -> str:
    """The agents SDK's loop, on Responses or Chat Completions."""
    from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    @function_tool
    def bash(command: str) -> str:
        """Runs a shell command."""
        return shell(command)

    client = AsyncOpenAI(base_url=BASE + "/v1", api_key=KEY)
    model = OpenAIResponsesModel(MODEL, client) if responses else OpenAIChatCompletionsModel(MODEL, client)
    agent = Agent(name="a", instructions="be brief", tools=[bash], model=model)

    async def run() -> str:
        if not stream:
            return str((await Runner.run(agent, PROMPT, max_turns=TURNS)).final_output)
        result = Runner.run_streamed(agent, PROMPT, max_turns=TURNS)
        async for _event in result.stream_events():
            pass
        return str(result.final_output)

    return asyncio.run(run())


def claude_agent_sdk() -> str:
    """Claude Code behind its SDK."""
    from claude_agent_sdk import ClaudeAgentOptions, query

    home = tempfile.mkdtemp()
    env = {
        "ANTHROPIC_BASE_URL": BASE,
        "ANTHROPIC_AUTH_TOKEN": KEY,
        "HOME": home,
        "CLAUDE_CONFIG_DIR": home + "/.claude",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    options = ClaudeAgentOptions(model=MODEL, cwd=str(Path.cwd()), permission_mode="bypassPermissions", env=env)

    async def run() -> str:
        messages = [message async for message in query(prompt=PROMPT, options=options)]
        return str(getattr(messages[-1], "result", ""))

    return asyncio.run(run())


SESSIONS: dict[str, Callable[[], str]] = {
    "anthropic_stream": lambda: anthropic_session(stream=True),
    "anthropic_nonstream": lambda: anthropic_session(stream=False),
    "anthropic_tool_runner": anthropic_tool_runner,
    "openai_chat_stream": lambda: openai_session(stream=True),
    "openai_chat_nonstream": lambda: openai_session(stream=False),
    "openai_responses_stream": lambda: openai_responses(stream=True),
    "openai_responses_nonstream": lambda: openai_responses(stream=False),
    "openai_agents_chat_stream": lambda: openai_agents(stream=True, responses=False),
    "openai_agents_chat": lambda: openai_agents(stream=False, responses=False),
    "openai_agents_stream": lambda: openai_agents(stream=True, responses=True),
    "openai_agents_responses": lambda: openai_agents(stream=False, responses=True),
    "claude_agent_sdk": claude_agent_sdk,
}


def main() -> int:
    """Runs the session. An SDK that ends it with an exception of its own is a session that stopped, shown with its traceback."""
    final = SESSIONS[sys.argv[2]]()
    marker = Path("ran.txt")
    ran = marker.exists() and "TOOLRAN_42" in marker.read_text()
    arrived = "FINAL_OK" in final
    sys.stdout.write(f"tool: {'ran' if ran else 'NOT run'}\nfinal: {'arrived' if arrived else 'MISSING'}\n{final[:500]}\n")
    return 0 if ran and arrived else 1


if __name__ == "__main__":
    sys.exit(main())
