"""LiteLLM's proxy between clients of each dialect and the server. Arguments: the proxy's program, the address."""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PROGRAM, URL = sys.argv[1:3]
PORT = 18231
PICTURE = "data:image/png;base64," + base64.b64encode(pathlib.Path("shapes.png").read_bytes()).decode()
PARAMETERS = {"type": "object", "required": ["filter"], "$defs": {"Unit": {"enum": ["day", "week"]}},
              "properties": {"filter": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                             "per": {"$ref": "#/$defs/Unit"}}}
TOOL = {"name": "find_orders", "description": "Find orders of the shop", "parameters": PARAMETERS}
CHAT_TOOL = {"type": "function", "function": TOOL}
CLAUDE_TOOL = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": PARAMETERS}
SHAPE = {"type": "object", "properties": {"files": {"type": "integer"}}, "required": ["files"],
         "additionalProperties": False}
CONFIG = f"""
model_list:
  - model_name: chat
    litellm_params: {{model: openai/recorded, api_base: "{URL}/v1", api_key: none}}
  - model_name: hosted
    litellm_params: {{model: hosted_vllm/recorded, api_base: "{URL}/v1", api_key: none}}
  - model_name: messages
    litellm_params: {{model: anthropic/recorded, api_base: "{URL}", api_key: none}}
litellm_settings: {{num_retries: 0, telemetry: false, drop_params: true}}
"""


def post(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": "Bearer none"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        print(path, body["model"], error.code, error.read()[:300])
        return {}
    return json.loads(text) if text.startswith("{") else {}


def chat(model):
    """A call, its result with a picture, a stream, and a format."""
    look = [{"type": "text", "text": "Find the orders."}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    messages = [{"role": "system", "content": "You look after a shop."}, {"role": "user", "content": look}]
    fields = {"model": model, "tools": [CHAT_TOOL], "max_tokens": 500, "reasoning_effort": "low"}
    said = post("/v1/chat/completions", {**fields, "messages": messages})["choices"][0]["message"]
    messages.append(said)
    for call in said.get("tool_calls") or []:
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": "Two orders: 17, 18."})
    messages.append({"role": "user", "content": "And now?"})
    post("/v1/chat/completions", {**fields, "messages": messages, "stream": True, "tool_choice": "auto",
                                  "parallel_tool_calls": False})
    post("/v1/chat/completions", {"model": model, "messages": messages[:1] + [{"role": "user", "content": "Count."}],
                                  "response_format": {"type": "json_schema", "json_schema": {
                                      "name": "count", "strict": True, "schema": SHAPE}}})


def messages(model):
    """Claude Code's requests, through the proxy, for a model of either dialect."""
    turns = [{"role": "user", "content": [
        {"type": "text", "text": "Find the orders.", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE.split(",")[1]}}]}]
    fields = {"model": model, "max_tokens": 2000, "tools": [CLAUDE_TOOL],
              "system": [{"type": "text", "text": "You look after a shop.", "cache_control": {"type": "ephemeral"}}]}
    said = post("/v1/messages", {**fields, "messages": turns, "thinking": {"type": "enabled", "budget_tokens": 1024}})
    calls = [block for block in said.get("content") or [] if block["type"] == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "is_error": False,
                "content": [{"type": "text", "text": "Two orders: 17, 18."}]} for call in calls]
    if results:
        turns += [{"role": "assistant", "content": said["content"]}, {"role": "user", "content": results}]
    post("/v1/messages", {**fields, "messages": turns, "stream": True})


def responses(model):
    fields = {"model": model, "tools": [{"type": "function", "strict": False, **TOOL}], "max_output_tokens": 500}
    asked = [{"role": "user", "content": [{"type": "input_text", "text": "Find the orders."},
                                          {"type": "input_image", "image_url": PICTURE}]}]
    said = post("/v1/responses", {**fields, "input": asked, "reasoning": {"effort": "low", "summary": "auto"}})
    outputs = [{"type": "function_call_output", "call_id": item["call_id"], "output": "Two orders: 17, 18."}
               for item in said.get("output") or [] if item["type"] == "function_call"]
    post("/v1/responses", {**fields, "input": [*asked, *(said.get("output") or []), *outputs], "stream": True})


def main():
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "config.yaml"
        config.write_text(CONFIG)
        proxy = subprocess.Popen([PROGRAM, "--config", config, "--port", str(PORT), "--host", "127.0.0.1"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(120):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health/liveliness", timeout=2).read()
                    break
                except OSError:
                    time.sleep(1)
            for model in ("chat", "hosted", "messages"):
                for dialect in (chat, messages, responses):
                    print(model, dialect.__name__)
                    dialect(model)
        finally:
            proxy.terminate()
            proxy.wait()


main()
