"""More than a hundred bodies of POST /v1/messages without max_tokens, with all combinations of clients' fields."""
import itertools
import random

WEATHER = {"name": "get_weather", "description": "Get the current weather of a city",
           "input_schema": {"type": "object", "required": ["city"],
                            "properties": {"city": {"type": "string", "description": "Name of the city"}}}}
TIME = {"name": "get_time", "description": "Get the local time of a city",
        "input_schema": {"type": "object", "required": ["city"],
                         "properties": {"city": {"type": "string", "description": "Name of the city"}}}}
ADD = {"name": "add_numbers", "description": "Add two numbers",
       "input_schema": {"type": "object", "required": ["a", "b"],
                        "properties": {"a": {"type": "number", "description": "First number"},
                                       "b": {"type": "number", "description": "Second number"}}}}
CACHED = {"cache_control": {"type": "ephemeral"}}

SYSTEMS = [
    None,
    "You help with code.",
    [{"type": "text", "text": "You help."}, {"type": "text", "text": "Ünïcode 🙂 välkommen.", **CACHED}],
    [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=%05x;"},
     {"type": "text", "text": "You are an agent.\nBe brief."}],
]
TOOLS = [
    {},
    {"tools": [WEATHER]},
    {"tools": [{**WEATHER, **CACHED}, TIME, {"type": "web_search_20250305", "name": "web_search"}],
     "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
    {"tools": [ADD, TIME], "tool_choice": {"type": "none"}},
]
THINKING = [{}, {"thinking": {"type": "disabled"}}, {"thinking": {"type": "enabled", "budget_tokens": 1}},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}]


def call(number, name="get_weather", **arguments):
    return {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}


def result(number, content, **more):
    return {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}


CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>\nMind.\n</system-reminder>\n"},
                                  {"type": "text", "text": "Fix the bug.", **CACHED}]}],
    [{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"},
     {"role": "user", "content": "Three"}],
    [{"role": "user", "content": "Weather?"},
     {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look.", "signature": "eA=="},
                                       {"type": "text", "text": "Looking."}, call(1, city="Oslo")]},
     {"role": "user", "content": [result(1, "11 degrees")]}],
    [{"role": "user", "content": "Both?"},
     {"role": "assistant", "content": [call(1, city="Oslo"), call(2, "add_numbers", a=1, b=2.5)]},
     {"role": "user", "content": [result(1, [{"type": "text", "text": "rain"}, {"type": "text", "text": "9"}]),
                                  result(2, "no such tool", is_error=True),
                                  {"type": "text", "text": "Go on."}]}],
    [{"role": "user", "content": [{"type": "document", "title": "Notes",
                                   "source": {"type": "text", "media_type": "text/plain",
                                              "data": "First line.\nSecond line."}},
                                  {"type": "text", "text": "Sum it up."}]}],
    [{"role": "user", "content": "Read it."}, {"role": "assistant", "content": [call(1, "read", path="/a b")]},
     {"role": "user", "content": [{**result(1, ""), **CACHED}]},
     {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "zz"},
                                       {"type": "text", "text": "It is empty."}]},
     {"role": "system", "content": "The file has changed meanwhile."},
     {"role": "user", "content": "Again."}],
]


def bodies(model, count=120):
    """`count` of all combinations, always the same ones."""
    mixtures = list(itertools.product(SYSTEMS, TOOLS, THINKING, CONVERSATIONS))
    made = []
    for i, (system, tools, thinking, messages) in enumerate(random.Random(5).sample(mixtures, count)):
        body = {"model": model, "messages": messages, **tools, **thinking}
        if isinstance(system, list):  # a number that a client changes with every request
            system = [{**block, "text": block["text"].replace("%05x", f"{i:05x}")} for block in system]
        if system is not None:
            body["system"] = system
        made.append(body)
    return made
