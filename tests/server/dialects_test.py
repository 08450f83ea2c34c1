"""Features of all three dialects beyond the plain request: allowed tools, odd histories, custom tools,
stop strings with reasoning, stored streams, fields that no dialect knows. Raw HTTP, no SDK.

    python tests/server/dialects_test.py PROGRAM [CLASS]
"""
import json
import os
import sys
import unittest
import urllib.error
import urllib.request

from server_process import Server

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Oslo"]}}, "required": ["city"]}
NAMES = ["get_weather", "set_alarm", "delete_all"]
SERVER = None


def setUpModule():
    global SERVER
    SERVER = Server("--slots", "2", "--context", "8192").start()


def tearDownModule():
    assert SERVER.stop() == 0, SERVER.log()


def ask(route, body, server=None, method=None):
    """The status, the headers, and the JSON or text of an answer."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    if route.startswith(MESSAGES):
        headers["anthropic-version"] = "2023-06-01"
    request = urllib.request.Request((server or SERVER).url + route, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            status, head, text = answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        status, head, text = error.code, error.headers, error.read().decode()
    return status, head, json.loads(text) if head.get_content_type() == "application/json" else text


def frames(text):
    return [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]


def user(text="Hello"):
    return [{"role": "user", "content": text}]


def functions(flat):
    tools = [{"name": name, "description": "Does it.", "parameters": PARAMETERS} for name in NAMES]
    return [{"type": "function", **tool} if flat else {"type": "function", "function": tool} for tool in tools]


class Choices(unittest.TestCase):
    def test_only_allowed_tools_are_called_in_chat(self):
        allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "set_alarm"}}]}
        for seed in range(3):
            for stream in False, True:
                status, _, answer = ask(CHAT, {"messages": user("What is the weather in Oslo?"), "seed": seed,
                                               "tools": functions(False), "temperature": 1, "max_tokens": 80,
                                               "parallel_tool_calls": False, "stream": stream,
                                               "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}})
                self.assertEqual(status, 200, answer)
                if stream:
                    deltas = [frame["choices"][0]["delta"] for frame in frames(answer) if frame["choices"]]
                    names = [delta["tool_calls"][0]["function"]["name"] for delta in deltas
                             if "name" in delta.get("tool_calls", [{}])[0].get("function", {})]
                    self.assertIsNone(deltas[0]["content"])
                else:
                    names = [call["function"]["name"] for call in answer["choices"][0]["message"]["tool_calls"]]
                self.assertEqual(names, ["set_alarm"])

    def test_only_allowed_tools_are_called_in_responses(self):
        choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "delete_all"}]}
        body = {"input": "What is the weather in Oslo?", "tools": functions(True), "tool_choice": choice,
                "parallel_tool_calls": False, "max_output_tokens": 80}
        for seed in range(3):
            status, _, answer = ask(RESPONSES, {**body, "temperature": 1, "seed": seed})
            self.assertEqual(status, 200, answer)
            self.assertEqual([item["name"] for item in answer["output"] if item["type"] == "function_call"],
                             ["delete_all"])
        choice["tools"][0]["name"] = "unknown"
        status, _, answer = ask(RESPONSES, body)
        self.assertEqual((status, answer["error"]["param"]), (400, "tool_choice.tools[0].name"))

    def test_the_format_of_a_custom_tool_holds(self):
        grammar = {"syntax": "regex", "definition": "(yes|no)/[0-9]{3}"}
        lark = {"syntax": "lark", "definition": 'start: ("yes" | "no") "/" /[0-9]{3}/'}
        for form in grammar, lark:
            tool = {"name": "vote", "description": "Votes.", "format": {"type": "grammar", "grammar": form}}
            body = {"messages": user("Vote."), "tools": [{"type": "custom", "custom": tool}], "max_tokens": 60,
                    "temperature": 1, "seed": 3, "tool_choice": {"type": "custom", "custom": {"name": "vote"}}}
            status, _, answer = ask(CHAT, body)
            self.assertEqual(status, 200, answer)
            call = answer["choices"][0]["message"]["tool_calls"][0]
            self.assertEqual(call["type"], "custom")
            self.assertRegex(call["custom"]["input"], r"^(yes|no)/\d{3}$")
            status, _, stream = ask(CHAT, {**body, "stream": True})
            deltas = [frame["choices"][0]["delta"] for frame in frames(stream) if frame["choices"]]
            pieces = [delta["tool_calls"][0]["custom"]["input"] for delta in deltas if "tool_calls" in delta]
            self.assertEqual("".join(pieces), call["custom"]["input"])
            flat = {"type": "custom", "name": "vote", "description": "Votes.", "format": {"type": "grammar", **form}}
            status, _, answer = ask(RESPONSES, {"input": "Vote.", "tools": [flat], "tool_choice": "required",
                                                "max_output_tokens": 60, "parallel_tool_calls": False})
            self.assertEqual(status, 200, answer)
            calls = [item for item in answer["output"] if item["type"] == "custom_tool_call"]
            self.assertRegex(calls[0]["input"], r"^(yes|no)/\d{3}$")

    def test_a_wrong_format_is_named(self):
        tool = {"type": "custom", "name": "v", "format": {"type": "grammar", "syntax": "regex", "definition": "("}}
        status, _, answer = ask(RESPONSES, {"input": "Vote.", "tools": [tool]})
        self.assertEqual((status, answer["error"]["param"]), (400, "tools[0].format.definition"))


class Histories(unittest.TestCase):
    def test_calls_without_arguments_pass_in_every_form(self):
        for arguments in "null", "[]", "", "{}", "\"\"", "{\"cut\": \"", None:
            call = {"id": "c", "type": "function", "function": {"name": "now", "arguments": arguments}}
            messages = [*user(), {"role": "assistant", "content": None, "tool_calls": [call]},
                        {"role": "tool", "tool_call_id": "c", "content": "12:00"}]
            status, _, answer = ask(CHAT, {"messages": messages, "max_tokens": 4})
            self.assertEqual(status, 200, answer)
            items = [{"role": "user", "content": "a"},
                     {"type": "function_call", "call_id": "c", "name": "now", "arguments": arguments},
                     {"type": "function_call_output", "call_id": "c", "output": "12:00"}]
            status, _, answer = ask(RESPONSES, {"input": items, "max_output_tokens": 4})
            self.assertEqual(status, 200, answer)

    def test_blocks_and_items_of_other_services_are_counted(self):
        system = [{"type": "text", "text": "More."},
                  {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "f"}}]
        body = {"max_tokens": 4, "tools": [{"name": "f", "input_schema": {"type": "object"}}], "messages": [
            *user(), {"role": "assistant", "content": [
                {"type": "mcp_tool_use", "id": "m", "name": "x", "server_name": "s", "input": {}},
                {"type": "mcp_tool_result", "tool_use_id": "m", "content": []}, {"type": "text", "text": "A"}]},
            *user("b"), {"role": "system", "content": system}]}
        for route in MESSAGES, MESSAGES + "/count_tokens":
            status, headers, answer = ask(route, body)
            self.assertEqual(status, 200, answer)
            self.assertIn("mcp_tool_use=1", headers["X-Skipped"])
        status, headers, answer = ask(RESPONSES, {"max_output_tokens": 4, "input": [
            {"role": "user", "content": "a"}, {"type": "web_search_call", "id": "w", "status": "completed"},
            {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "x"}},
            {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": []}]})
        self.assertEqual(status, 200, answer)
        self.assertEqual(headers["X-Skipped"], "web_search_call=1")

    def test_a_field_that_carries_history_is_refused(self):
        status, _, answer = ask(MESSAGES, {"max_tokens": 4, "messages": user(), "thread": {"type": "create"}})
        self.assertEqual(status, 400)
        self.assertEqual(answer["error"]["details"]["error_code"], "thread_unsupported_request")
        status, _, answer = ask(CHAT, {"messages": user(), "previous_response_id": "resp_1"})
        self.assertEqual((status, answer["error"]["param"]), (400, "previous_response_id"))

    def test_a_prompt_that_is_too_long_says_so_in_each_clients_words(self):
        text = "word " * 9000
        for route, body in ((CHAT, {"messages": user(text)}), (RESPONSES, {"input": text}),
                            (MESSAGES, {"max_tokens": 4, "messages": user(text)})):
            status, _, answer = ask(route, body)
            self.assertEqual(status, 400)
            self.assertIn("maximum context length", answer["error"]["message"])
            self.assertIn("prompt is too long: ", answer["error"]["message"])


class Answers(unittest.TestCase):
    ADD = "Write a Python function that adds two numbers into add.py."

    def test_stop_strings_end_the_answer_and_not_the_reasoning(self):
        thinks = {"chat_template_kwargs": {"enable_thinking": True}, "temperature": 0}
        status, _, whole = ask(CHAT, {"messages": user(self.ADD), "max_tokens": 200, **thinks})
        message = whole["choices"][0]["message"]
        self.assertTrue(message.get("reasoning_content"), whole)
        stop = [word for word in message["reasoning_content"].split() if len(word) > 2][0]
        status, _, answer = ask(CHAT, {"messages": user(self.ADD), "max_tokens": 200, "stop": [stop], **thinks})
        cut = answer["choices"][0]["message"]
        self.assertEqual(cut["reasoning_content"], message["reasoning_content"])
        self.assertEqual(cut["content"], message["content"].partition(stop)[0])
        status, _, stream = ask(CHAT, {"messages": user(self.ADD), "max_tokens": 200, "stop": [stop],
                                       "stream": True, **thinks})
        deltas = [frame["choices"][0]["delta"] for frame in frames(stream) if frame["choices"]]
        self.assertEqual("".join(delta.get("content") or "" for delta in deltas), cut["content"])
        status, _, answer = ask(RESPONSES, {"input": self.ADD, "max_output_tokens": 200, "stop": [stop], **thinks})
        texts = [part["text"] for item in answer["output"] if item["type"] == "message" for part in item["content"]]
        self.assertEqual("".join(texts), cut["content"])
        status, _, answer = ask(MESSAGES, {"messages": user(self.ADD), "max_tokens": 200, "stop_sequences": [stop],
                                           "thinking": {"type": "adaptive"}, "temperature": 0})
        self.assertEqual(answer["content"][0]["type"], "thinking")
        self.assertTrue(all(stop not in block.get("text", "") for block in answer["content"]))
        status, _, answer = ask(CHAT, {"messages": user(self.ADD), "max_tokens": 200, "stop": [stop],
                                       "thinking_budget": 3, **thinks})
        self.assertTrue(answer["choices"][0]["message"]["reasoning_content"])

    def test_a_stored_answer_is_read_again(self):
        status, _, stream = ask(RESPONSES, {"input": "Count to five.", "max_output_tokens": 12, "stream": True})
        events = frames(stream)
        name = events[-1]["response"]["id"]
        status, headers, again = ask(f"{RESPONSES}/{name}?stream=true", None)
        self.assertEqual(headers.get_content_type(), "text/event-stream")
        self.assertEqual(frames(again), events)
        _, _, rest = ask(f"{RESPONSES}/{name}?stream=true&starting_after=3", None)
        self.assertEqual(frames(rest), events[4:])
        status, _, items = ask(f"{RESPONSES}/{name}/input_items", None)
        self.assertEqual(items["data"][0]["content"], [{"type": "input_text", "text": "Count to five."}])
        self.assertEqual(ask(f"{RESPONSES}/resp_none/input_items", None)[0], 404)
        status, headers, answer = ask(RESPONSES + "/compact", {"model": "m", "input": "x"})
        self.assertEqual((status, headers["x-should-retry"]), (501, "false"))
        self.assertIn("does not compact", answer["error"]["message"])

    def test_a_client_without_stored_answers_keeps_the_reasoning(self):
        body = {"input": self.ADD, "store": False, "include": ["reasoning.encrypted_content"],
                "reasoning": {"effort": "high"}, "max_output_tokens": 200, "temperature": 0}
        _, _, answer = ask(RESPONSES, body)
        reasoning = answer["output"][0]
        self.assertEqual(reasoning["type"], "reasoning")
        sealed = {"type": "reasoning", "summary": [], "encrypted_content": reasoning["encrypted_content"]}
        plain = {"type": "reasoning", "summary": [], "content": reasoning["content"]}
        counts = []
        for item in sealed, plain:
            history = [{"role": "user", "content": self.ADD}, item,
                       {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                       {"type": "function_call_output", "call_id": "c", "output": "ok"}]
            status, _, count = ask(RESPONSES + "/input_tokens", {"input": history})
            self.assertEqual(status, 200, count)
            counts.append(count["input_tokens"])
        self.assertEqual(counts[0], counts[1])

    def test_every_effort_of_the_api_is_taken(self):
        for effort in "none", "minimal", "low", "medium", "high", "xhigh", "max":
            status, _, answer = ask(CHAT, {"messages": user(), "max_tokens": 2, "reasoning_effort": effort})
            self.assertEqual(status, 200, answer)
            status, _, answer = ask(RESPONSES, {"input": "a", "max_output_tokens": 2, "reasoning": {"effort": effort}})
            self.assertEqual(status, 200, answer)


class Unknown(unittest.TestCase):
    def test_unknown_fields_are_named_once(self):
        for stream in False, True, False:
            status, headers, _ = ask(CHAT, {"messages": user(), "max_tokens": 2, "max_token": 5, "stream": stream})
            self.assertEqual((status, headers["X-Unknown-Fields"]), (200, "max_token"))
        status, headers, _ = ask(MESSAGES, {"messages": user(), "max_tokens": 2, "stop": ["x"]})
        self.assertEqual((status, headers["X-Unknown-Fields"]), (200, "stop"))
        self.assertEqual(SERVER.log().count('field \\"max_token\\"') + SERVER.log().count('field "max_token"'), 1)

    def test_a_strict_server_refuses_them(self):
        with Server("--strict-fields", "--slots", "1") as server:
            for route, body in ((CHAT, {"messages": user()}), (RESPONSES, {"input": "a"}),
                                (MESSAGES, {"messages": user(), "max_tokens": 2}),
                                ("/v1/completions", {"prompt": "a"})):
                status, _, answer = ask(route, {**body, "max_token": 5}, server)
                self.assertEqual(status, 400)
                self.assertIn("max_token: unknown field", answer["error"]["message"])
                self.assertIn("max_tokens" if route != RESPONSES else "max_output_tokens",
                              answer["error"]["message"])


if __name__ == "__main__":
    if len(sys.argv) > 1 and os.sep in sys.argv[1]:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main()
