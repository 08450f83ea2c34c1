"""goose's own providers (the Rust code of its command, as PyPI's goose-sdk has it): turns with tools, pictures, a
tool that failed, a call that could not be read, compaction. Arguments: the address, and openai or anthropic."""
import asyncio
import json
import pathlib
import sys

import goose
from goose import MessageContent as Content
from goose import MessageRole, ProviderMessage, ProviderModelConfig, ProviderTool

URL, KIND = sys.argv[1:3]
MODEL = "gpt-4o" if KIND == "openai" else "claude-sonnet-4-5"  # one that goose knows to read pictures
PICTURE = pathlib.Path("shapes.png").read_bytes()
SYSTEM = "You are a general-purpose agent. You look after a shop."
SHELL = {"type": "object", "required": ["command"], "properties": {"command": {"type": "string"},
         "timeout_secs": {"type": ["integer", "null"], "format": "uint64", "minimum": 0}}}
ORDERS = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Params", "type": "object",
          "required": ["filter"], "$defs": {"Unit": {"type": "string", "enum": ["day", "week"]}},
          "properties": {"filter": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "per": {"$ref": "#/$defs/Unit"}}}
TOOLS = [ProviderTool(name="developer__shell", description="Run a command", input_schema_json=json.dumps(SHELL)),
         ProviderTool(name="shop__find_orders", description="Find orders", input_schema_json=json.dumps(ORDERS)),
         ProviderTool(name="shop__take_picture", description="Take a picture",
                      input_schema_json=json.dumps({"type": "object"}))]


def said(role, *content):
    return ProviderMessage(role=role, content=list(content))


def result(name, success, *content):
    return Content.TOOL_RESULT(name, success, json.dumps(list(content)))


async def turn(provider, messages, tools, **settings):
    try:
        stream = await provider.stream(ProviderModelConfig(model_name=MODEL, **settings), SYSTEM, messages, tools)
        while await stream.next_chunk() is not None:
            pass
    except goose.GooseError as error:
        print(error)


async def main():
    if KIND == "openai":
        provider = goose.openai_provider("none", URL + "/v1/v1")  # it takes one /v1 off
    else:
        provider = goose.anthropic_provider("none", URL, [])
    user, assistant = MessageRole.USER, MessageRole.ASSISTANT
    text = {"type": "text", "text": "Two orders: 17, 18."}
    history = [said(user, Content.TEXT("Look at the project."), Content.IMAGE("image/png", PICTURE))]
    await turn(provider, history, TOOLS)
    history += [said(assistant, Content.THINKING("I list the files.", "c2lnbmF0dXJl"), Content.TEXT("Listing."),
                     Content.TOOL_REQUEST("call_1", "developer__shell", '{"command": "ls"}'),
                     Content.TOOL_REQUEST("call_2", "shop__find_orders", '{"filter": null, "per": "day"}')),
                said(MessageRole.TOOL, result("call_1", True, {"type": "text", "text": "add.py\nnotes.txt"})),
                said(MessageRole.TOOL, result("call_2", True, text))]
    await turn(provider, history, TOOLS, temperature=0.5, max_tokens=4000)
    history += [said(assistant, Content.TOOL_REQUEST("call_3", "shop__take_picture", "{}")),
                said(MessageRole.TOOL, result("call_3", True, {"type": "text", "text": "Here:"})),
                said(user, Content.IMAGE("image/png", PICTURE)),
                said(assistant, Content.TOOL_REQUEST("call_4", "developer__shell", '{"command": "cat absent"}')),
                said(MessageRole.TOOL, result("call_4", False, {"type": "text", "text": "No such file"})),
                said(assistant, Content.TEXT("I have looked at it.")), said(user, Content.TEXT("And now?"))]
    await turn(provider, history, TOOLS, context_limit=100000)
    await turn(provider, history[:1], [])
    texts = [goose.CompactionMessage(role=user, text="Find the orders."),
             goose.CompactionMessage(role=assistant, text="Two orders: 17, 18.")]
    summary = await provider.compact(MODEL, texts, None)
    await turn(provider, [said(assistant, Content.TEXT(summary.text)), said(user, Content.TEXT("Go on."))], TOOLS)


asyncio.run(main())
