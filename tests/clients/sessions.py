"""The sessions of each program. ALL[name](place, program) yields (session, steps); a step is a script of
answers, a command and an environment, in which {url}, {folder} and {project} are filled in."""

import python_sessions
from scripted_server import Answer

ANOTHER = Answer(text="I have looked at it. ☕")
LONG = "prompt is too long: 240000 tokens > 200000 maximum"


def claude_code(place, program):
    environment = {
        "ANTHROPIC_BASE_URL": "{url}",
        "ANTHROPIC_AUTH_TOKEN": "none",
        "ANTHROPIC_MODEL": "recorded",
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "recorded-small",
        "IS_SANDBOX": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    place.write(
        "tools.json.in",
        {"mcpServers": {"shop": {"type": "stdio", "command": "python3", "args": ["{folder}/tool_server.py"]}}},
    )
    base = [program, "--dangerously-skip-permissions", "--mcp-config", place.home / "tools.json", "-p"]

    def step(script, *arguments, **more):
        return script, [*base, *arguments], {**environment, **more}

    work = [
        Answer(
            reasoning="I list the files.", text="Listing.", calls=[("Bash", {"command": "ls", "description": "List"})]
        ),
        Answer(
            calls=[("Read", {"file_path": "{project}/notes.txt"}), ("Read", {"file_path": "{project}/shapes.png"})]
        ),
        Answer(calls=[("Read", {"file_path": "{project}/absent"}), ("mcp__shop__take_picture", {})]),
        Answer(
            calls=[
                ("Edit", {"file_path": "{project}/notes.txt", "old_string": "first", "new_string": "1st"}),
                ("Agent", {"description": "Look", "prompt": "Look at notes.txt", "subagent_type": "general-purpose"}),
            ]
        ),
        Answer(
            calls=[
                ("WebSearch", {"query": "weather Oslo"}),
                ("TaskCreate", {"subject": "Test", "description": "Run the tests", "activeForm": "Testing"}),
            ]
        ),
        ANOTHER,
    ]
    script = [a for a in work]
    yield "tools", [
        step(script, "Look at the project."),
        step([ANOTHER], "And now?", "--continue"),
        step([ANOTHER], "Think hard about it.", "--continue", "--effort", "high"),
        step([ANOTHER], "/compact", "--continue"),
        step([ANOTHER], "Go on.", "--continue"),
        step([Answer(status=400, text=LONG), ANOTHER], "Go on.", "--continue"),
    ]
    yield "search", [
        step(
            [
                Answer(calls=[("ToolSearch", {"query": "select:mcp__shop__find_orders", "max_results": 5})]),
                Answer(calls=[("mcp__shop__find_orders", {"filter": None, "per": "day"})]),
                ANOTHER,
            ],
            "Find the orders.",
            ENABLE_TOOL_SEARCH="true",
        ),
        step([ANOTHER], "And now?", "--continue", ENABLE_TOOL_SEARCH="true"),
    ]
    yield "format", [
        step(
            [ANOTHER],
            "How many files?",
            "--output-format",
            "json",
            "--json-schema",
            '{"type":"object","properties":{"files":{"type":"integer"}},"required":["files"]}',
        ),
        step([ANOTHER], "Hello", "--model", "recorded-small", MAX_THINKING_TOKENS="2000"),
    ]


CODEX = """
model = "recorded"
model_provider = "here"
{more}
[model_providers.here]
name = "Here"
base_url = "{url}/v1"
wire_api = "responses"
stream_max_retries = 0
[mcp_servers.shop]
command = "python3"
args = ["{folder}/tool_server.py"]
"""
SHAPE = {
    "type": "object",
    "properties": {"files": {"type": "integer"}},
    "required": ["files"],
    "additionalProperties": False,
}
PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-The first note.\n+The 1st note.\n*** End Patch"


def codex(place, program):
    place.write(".codex/config.toml.in", CODEX.replace("{more}", "model_auto_compact_token_limit = 100000"))
    place.write("shape.json", SHAPE)
    base = [program, "exec", "--dangerously-bypass-approvals-and-sandbox"]

    def step(script, *arguments):
        return script, [*base, *arguments], {"CODEX_HOME": str(place.home / ".codex")}

    yield "tools", [
        step(
            [
                Answer(reasoning="I list the files.", text="Listing.", calls=[("exec_command", {"cmd": "ls"})]),
                Answer(
                    calls=[
                        ("update_plan", {"plan": [{"step": "Read", "status": "in_progress"}]}),
                        ("view_image", {"path": "{project}/shapes.png"}),
                    ]
                ),
                Answer(calls=[("mcp__shop|take_picture", {}), ("exec_command", {"cmd": "cat absent"})]),
                Answer(calls=[("apply_patch", PATCH)]),
                ANOTHER,
            ],
            "Look at the project.",
            "-i",
            "shapes.png",
        ),
        step([ANOTHER], "resume", "--last", "And now?"),
        step([Answer(calls=[("exec_command", {"cmd": "ls"})], tokens=120000), ANOTHER], "resume", "--last", "Go on."),
        step([ANOTHER], "resume", "--last", "Go on."),
    ]
    yield "format", [step([ANOTHER], "How many files?", "--output-schema", place.home / "shape.json")]
    yield "large", [
        step(
            [
                Answer(calls=[("tool_search", {"query": "orders", "limit": 3})]),
                Answer(calls=[("exec_command", {"cmd": "ls"})]),
                Answer(calls=[("apply_patch", PATCH)]),
                ANOTHER,
            ],
            "Find the orders.",
            "-m",
            "gpt-5.5",
            "-c",
            "model_reasoning_effort=high",
            "-c",
            "web_search=live",
        ),
        step([ANOTHER], "resume", "--last", "-m", "gpt-5.5", "And now?"),
    ]


OPENAI = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "recorded"}


def opencode(place, program):
    limits = {"context": 100000, "output": 8000}
    model = {
        "name": "Recorded",
        "limit": limits,
        "tool_call": True,
        "reasoning": True,
        "attachment": True,
        "modalities": {"input": ["text", "image"], "output": ["text"]},
    }
    place.write(
        ".config/opencode/opencode.json.in",
        {
            "provider": {
                "here": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Here",
                    "options": {"baseURL": "{url}/v1", "apiKey": "none"},
                    "models": {"recorded": model},
                }
            },
            "model": "here/recorded",
            "small_model": "here/recorded",
            "autoupdate": False,
            "share": "disabled",
            "mcp": {"shop": {"type": "local", "command": ["python3", "{folder}/tool_server.py"], "enabled": True}},
        },
    )

    def step(script, *arguments):
        return script, [program, "run", "--auto", *arguments], {"OPENCODE_DISABLE_MODELS_FETCH": "1"}

    yield "tools", [
        step(
            [
                Answer(
                    reasoning="I list the files.",
                    text="Listing.",
                    calls=[("bash", {"command": "ls", "description": "List"})],
                ),
                Answer(
                    calls=[
                        ("read", {"filePath": "{project}/notes.txt"}),
                        ("read", {"filePath": "{project}/shapes.png"}),
                    ]
                ),
                Answer(calls=[("read", {"filePath": "{project}/absent"}), ("shop_take_picture", {})]),
                Answer(
                    calls=[
                        (
                            "todowrite",
                            {"todos": [{"id": "1", "content": "Test", "status": "pending", "priority": "low"}]},
                        ),
                        ("glob", {"pattern": "*.py"}),
                    ]
                ),
                ANOTHER,
            ],
            "Look at the project.",
            "-f",
            "shapes.png",
        ),
        step([ANOTHER], "-c", "And now?"),
        step(
            [Answer(calls=[("bash", {"command": "ls", "description": "List"})], tokens=99000), ANOTHER],
            "-c",
            "Go on.",
        ),
        step([ANOTHER], "-c", "Go on."),
        step([Answer(text=LONG, status=400), ANOTHER], "-c", "Go on."),
    ]


def cline(place, program):
    base = [
        program,
        "--config",
        place.home / ".cline",
        "--json",
        "-P",
        "openai-compatible",
        "-m",
        "recorded",
        "-k",
        "none",
    ]

    def step(script, *arguments):
        return script, [*base, *arguments], OPENAI

    yield "setup", [
        (
            [ANOTHER],
            [program, "auth", "-p", "openai-compatible", "-k", "none", "-b", "{url}/v1", "-m", "recorded"],
            OPENAI,
        )
    ]
    yield "tools", [
        step(
            [
                Answer(
                    reasoning="I list the files.", text="Listing.", calls=[("run_commands", {"commands": ["ls"]})]
                ),
                Answer(calls=[("read_files", {"files": [{"path": "{project}/notes.txt"}]})]),
                Answer(calls=[("read_files", {"files": [{"path": "{project}/absent"}]})]),
                ANOTHER,
            ],
            "Look at the project.",
        )
    ]


CONTINUE = """
name: Here
version: 1.0.0
schema: v1
models:
  - name: recorded
    provider: openai
    model: recorded
    apiBase: {url}/v1
    apiKey: none
    capabilities: [tool_use, image_input]
mcpServers:
  - name: shop
    command: python3
    args: ["{folder}/tool_server.py"]
"""


def continue_cli(place, program):
    place.write("config.yaml.in", CONTINUE)

    def step(script, *arguments):
        return (
            script,
            [program, "--config", place.home / "config.yaml", "--auto", *arguments],
            {"CONTINUE_TELEMETRY_ENABLED": "0"},
        )

    yield "tools", [
        step(
            [
                Answer(reasoning="I list the files.", text="Listing.", calls=[("Bash", {"command": "ls"})]),
                Answer(calls=[("Read", {"filepath": "notes.txt"}), ("Read", {"filepath": "absent"})]),
                Answer(
                    calls=[
                        ("take_picture", {}),
                        ("Edit", {"file_path": "notes.txt", "old_string": "first", "new_string": "1st"}),
                    ]
                ),
                ANOTHER,
            ],
            "-p",
            "Look at the project.",
        ),
        step([ANOTHER], "--resume", "-p", "And now?"),
    ]


def qwen_code(place, program):
    place.write(
        ".qwen/settings.json.in",
        {
            "mcpServers": {"shop": {"command": "python3", "args": ["{folder}/tool_server.py"]}},
            "security": {"auth": {"selectedType": "openai"}},
            "privacy": {"usageStatisticsEnabled": False},
        },
    )

    def step(script, *arguments):
        return script, [program, "--yolo", *arguments], OPENAI

    yield "tools", [
        step(
            [
                Answer(
                    reasoning="I list the files.",
                    text="Listing.",
                    calls=[("run_shell_command", {"command": "ls", "is_background": False, "description": "List"})],
                ),
                Answer(
                    calls=[
                        ("read_file", {"file_path": "{project}/notes.txt"}),
                        ("read_file", {"file_path": "{project}/shapes.png"}),
                    ]
                ),
                Answer(calls=[("read_file", {"file_path": "{project}/absent"}), ("mcp__shop__take_picture", {})]),
                Answer(
                    calls=[
                        ("todo_write", {"todos": [{"id": "1", "content": "Test", "status": "pending"}]}),
                        ("tool_search", {"query": "select:mcp__shop__find_orders"}),
                    ]
                ),
                ANOTHER,
            ],
            "-p",
            "Look at the project. @shapes.png",
        ),
        step([ANOTHER], "-c", "-p", "And now?"),
        step([ANOTHER], "-c", "-p", "/compress"),
        step([ANOTHER], "-c", "-p", "Go on."),
    ]


def pi(place, program):
    place.write(
        ".pi/agent/models.json.in",
        {
            "providers": {
                "here": {
                    "baseUrl": "{url}/v1",
                    "api": "openai-completions",
                    "apiKey": "none",
                    "models": [
                        {
                            "id": "recorded",
                            "name": "Recorded",
                            "reasoning": True,
                            "input": ["text", "image"],
                            "contextWindow": 100000,
                            "maxTokens": 8000,
                            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
                        }
                    ],
                }
            }
        },
    )

    def step(script, *arguments):
        return script, [program, "--provider", "here", "--model", "recorded", "--offline", "-p", *arguments], {}

    yield "tools", [
        step(
            [
                Answer(reasoning="I list the files.", text="Listing.", calls=[("bash", {"command": "ls"})]),
                Answer(calls=[("read", {"path": "notes.txt"}), ("read", {"path": "shapes.png"})]),
                Answer(calls=[("read", {"path": "absent"})]),
                ANOTHER,
            ],
            "@shapes.png",
            "Look at the project.",
        ),
        step(
            [Answer(calls=[("bash", {"command": "ls"})], tokens=99000), ANOTHER],
            "-c",
            "And now?",
            "--thinking",
            "high",
        ),
        step([ANOTHER], "-c", "Go on."),
    ]


WITHOUT_TOOLS = {"aider"}  # they write edits as text
ALL = {
    "claude-code": claude_code,
    "codex": codex,
    "opencode": opencode,
    "cline": cline,
    "continue": continue_cli,
    "qwen-code": qwen_code,
    "pi": pi,
    **python_sessions.ALL,
}
