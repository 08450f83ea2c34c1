"""Recorded requests of real programs (bodies/*.json, see README.md), replayed to the built server, streamed and whole.

    FORETOKEN=build/release/foretoken python3 tests/clients/replay_test.py [-v] [Codex]

Each answer must have status 200 and the form of its dialect. A stream must join to the whole answer (every third
request; all of them with FORETOKEN_FULL=1). Where a call is required there must be one, of a tool that was offered,
by its schema's names.
"""
import copy
import json
import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "server"))

import filler  # noqa: E402
from raw_client import Client  # noqa: E402
from server_process import Server  # noqa: E402
from short_model import short_model  # noqa: E402

FULL = "FORETOKEN_FULL" in os.environ
MOST = 1 << 20 if FULL else 16  # characters of a long text
LENGTHS = {"chat": ("max_completion_tokens", "max_tokens"), "responses": ("max_output_tokens",),
           "messages": ("max_tokens",)}


def fixture(name):
    """The requests of a file, with shared parts and long texts put back."""
    found = json.loads((HERE / f"bodies/{name}.json").read_text(encoding="utf-8"))
    parts = found["parts"]

    def put(value):
        if isinstance(value, dict) and set(value) == {"$part"}:
            return put(parts[value["$part"]])
        return [put(one) for one in value] if isinstance(value, list) else value

    for request in found["requests"]:
        request["body"] = filler.expand({key: put(value) for key, value in request["body"].items()}, MOST)
    return found["requests"]


def dialect(path):
    path = path.split("?")[0]
    return {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}[path]


def limited(body, kind, tokens):
    body = {**copy.deepcopy(body), "temperature": 0}
    for name in LENGTHS[kind]:
        body.pop(name, None)
    body[LENGTHS[kind][0]] = tokens
    if (body.get("thinking") or {}).get("budget_tokens"):
        body["thinking"]["budget_tokens"] = tokens // 2
    return body


def plain(body, kind):
    """Without thinking, so that the required part comes first."""
    for name in ("reasoning", "reasoning_effort", "thinking"):
        body.pop(name, None)
    if kind == "chat":
        body["reasoning_effort"] = "none"
    if kind == "responses":
        body["reasoning"] = {"effort": "none"}
    return body


def events(data):
    """The pairs of name and data of a stream; a chat's last is [DONE]."""
    found = []
    for block in data.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line and line[0] != ":")
        if "data" in fields:
            found.append((fields.get("event"), fields["data"]))
    return found


class Chat:
    """Both forms of an answer as {"text", "reasoning", "calls": [[name, arguments]], "end"}."""

    @staticmethod
    def whole(answer):
        choice = answer["choices"][0]
        message = choice["message"]
        assert message["role"] == "assistant" and answer["usage"]["prompt_tokens"] > 0, answer
        calls = [[c["function"]["name"], c["function"]["arguments"]] for c in message.get("tool_calls") or []]
        return {"text": message["content"] or "", "reasoning": message.get("reasoning_content") or "",
                "calls": calls, "end": choice["finish_reason"]}

    @staticmethod
    def streamed(stream):
        assert stream[-1][1] == "[DONE]", stream[-1]
        chunks = [json.loads(data) for _, data in stream[:-1]]
        said = {"text": "", "reasoning": "", "calls": [], "end": None}
        for chunk in chunks:
            for choice in chunk["choices"]:
                delta = choice["delta"]
                said["text"] += delta.get("content") or ""
                said["reasoning"] += delta.get("reasoning_content") or ""
                for call in delta.get("tool_calls") or []:
                    if call["index"] == len(said["calls"]):
                        assert call["id"] and call["type"] == "function", call
                        said["calls"].append([call["function"]["name"], ""])
                    said["calls"][call["index"]][1] += call["function"].get("arguments") or ""
                said["end"] = choice["finish_reason"] or said["end"]
        assert chunks[0]["choices"][0]["delta"]["role"] == "assistant", chunks[0]
        return said


class Responses:
    @staticmethod
    def whole(answer):
        assert answer["status"] in ("completed", "incomplete") and answer["usage"]["input_tokens"] > 0, answer
        said = {"text": "", "reasoning": "", "calls": [], "end": answer["status"]}
        for item in answer["output"]:
            if item["type"] == "message":
                said["text"] += "".join(part["text"] for part in item["content"])
            elif item["type"] == "reasoning":
                said["reasoning"] += "".join(part["text"] for part in item.get("content") or item["summary"])
            elif item["type"] == "tool_search_call":
                said["calls"].append(["tool_search", json.dumps(item["arguments"])])
            else:
                assert item["call_id"], item
                name = called(item.get("namespace"), item["name"])
                said["calls"].append([name, item["input" if "input" in item else "arguments"]])
        return said

    @staticmethod
    def streamed(stream):
        stream = [one for i, one in enumerate(stream) if i < 2 or one[0] != "response.in_progress"]  # pauses
        found = [json.loads(data) for _, data in stream]
        assert [one["sequence_number"] for one in found] == list(range(len(found)))
        assert all(name == one["type"] for (name, _), one in zip(stream, found))
        assert found[0]["type"] == "response.created", found[0]
        assert found[-1]["type"] in ("response.completed", "response.incomplete"), found[-1]
        done = [one["item"] for one in found if one["type"] == "response.output_item.done"]
        assert done == found[-1]["response"]["output"], (done, found[-1])
        return Responses.whole(found[-1]["response"])


class Messages:
    @staticmethod
    def whole(answer):
        assert answer["type"] == "message" and answer["role"] == "assistant", answer
        assert sum(answer["usage"][name] or 0 for name in
                   ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")) > 0, answer
        said = {"text": "", "reasoning": "", "calls": [], "end": answer["stop_reason"]}
        for block in answer["content"]:
            if block["type"] == "tool_use":
                said["calls"].append([block["name"], json.dumps(block["input"])])
            else:
                name = {"text": "text", "thinking": "reasoning"}[block["type"]]
                said[name] += block["text" if name == "text" else "thinking"]
        return said

    @staticmethod
    def streamed(stream):
        found = [json.loads(data) for _, data in stream]
        assert [found[0]["type"], found[-1]["type"]] == ["message_start", "message_stop"], found
        message = {**found[0]["message"], "content": []}
        texts = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
        for one in found:
            if one["type"] == "content_block_start":
                message["content"].append({**one["content_block"], "json": ""})
            elif one["type"] == "content_block_delta":
                assert one["index"] == len(message["content"]) - 1, one
                delta, block = one["delta"], message["content"][-1]
                if delta["type"] == "input_json_delta":
                    block["json"] += delta["partial_json"]
                else:
                    block[texts[delta["type"]]] += delta[texts[delta["type"]]]
            elif one["type"] == "message_delta":
                message.update(one["delta"], usage={**message["usage"], **one["usage"]})
        for block in message["content"]:
            text = block.pop("json")
            if block["type"] == "tool_use":
                block["input"] = cut_json(text)
        return Messages.whole(message)


def called(space, name):
    return f"{space}|{name}" if space else name


READERS = {"chat": Chat, "responses": Responses, "messages": Messages}


def cut_json(text):
    """Arguments that may have been cut by the limit of tokens."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def offers(body):
    """The tools of a body, including those that a search has found."""
    found = list(body.get("tools") or [])
    for item in body.get("input") or []:
        if item.get("type") == "tool_search_output":
            found += item["tools"]
    return found


def offered(body, kind):
    """The required parameters of each offered tool, by the name under which it is called."""
    found = {}
    for tool in offers(body):
        tool = tool.get("function", tool)
        space = tool["name"] if tool.get("type") == "namespace" else None
        for one in tool["tools"] if space else [tool]:
            schema = one.get("input_schema") or one.get("parameters") or {}
            if kind == "messages" and "input_schema" not in one:
                continue  # hosted
            if one.get("type") == "web_search":
                continue
            found[called(space, one.get("name", one.get("type")))] = schema.get("required") or []
    return found


class Replayed:
    name = ""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--model", short_model(), "--any-model", "--context", "32768", "--slots", "2").start()
        cls.requests = fixture(cls.name)

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"serve ended with {code}: {cls.server.log()}"

    def post(self, request, body):
        headers = [f"{name}: {text}" for name, text in request["headers"].items()]
        with Client(self.server.url, timeout=300) as client:
            client.post(request["path"], body, ["Content-Type: application/json", *headers])
            status, _, data = client.answer()
        self.assertEqual(status, 200, f"{request['session']}: {data[:500]}")
        return data

    def test_every_request_is_answered_and_its_stream_joins_to_the_whole(self):
        self.assertTrue(self.requests)
        for number, request in enumerate(self.requests):
            kind = dialect(request["path"])
            with self.subTest(session=request["session"], number=number):
                body = limited(request["body"], kind, 12)
                if not FULL and number % 3:
                    body["stream"] = True
                    READERS[kind].streamed(events(self.post(request, body)))
                    continue
                whole = {name: value for name, value in body.items() if name != "stream_options"}
                first = READERS[kind].whole(json.loads(self.post(request, {**whole, "stream": False})))
                self.assertTrue(first["text"] or first["reasoning"] or first["calls"] or first["end"], first)
                body["stream"] = True
                second = READERS[kind].streamed(events(self.post(request, body)))
                if kind == "messages" and first["end"] == "max_tokens" and first["calls"]:
                    # A call that was cut: a stream has the text so far, a whole answer only an object.
                    first["calls"][-1][1] = second["calls"][-1][1] = "cut"
                self.assertEqual(second, first)

    def test_a_required_call_is_one_of_an_offered_tool_with_its_parameters(self):
        required = {"chat": "required", "responses": "required", "messages": {"type": "any"}}
        asked = set()
        for request in self.requests:
            kind = dialect(request["path"])
            tools = offered(request["body"], kind)
            if not tools or request["session"] in asked:
                continue
            asked.add(request["session"])
            body = plain(limited(request["body"], kind, 200), kind)
            body["tool_choice"] = required[kind]
            for form in ({"stream": False}, {"stream": True}):
                with self.subTest(session=request["session"], **form):
                    body.pop("stream_options", None)
                    if kind == "chat" and form["stream"]:
                        body["stream_options"] = {"include_usage": True}
                    data = self.post(request, {**body, **form})
                    reader = READERS[kind]
                    said = reader.streamed(events(data)) if form["stream"] else reader.whole(json.loads(data))
                    self.assertTrue(said["calls"], said)
                    finished = said["end"] in ("tool_calls", "tool_use", "completed")
                    for name, arguments in said["calls"]:
                        self.assertIn(name, tools)
                        if finished and name != "apply_patch":
                            self.assertLessEqual(set(tools[name]), set(json.loads(arguments)))
        self.assertTrue(asked or not any(one["body"].get("tools") for one in self.requests))


class CodexsOwnTools(unittest.TestCase):
    """Each tool of Codex that is not a plain function can be forced, and its call is the item that Codex reads."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--any-model", "--context", "32768").start()

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def answers(self, body, choice):
        """The call, from a whole answer and from a stream."""
        body = {**plain(limited(body, "responses", 200), "responses"), "tool_choice": choice}
        with Client(self.server.url, timeout=300) as client:
            for stream in (False, True):
                client.post("/v1/responses", {**body, "stream": stream}, ["Content-Type: application/json"])
                status, _, data = client.answer()
                self.assertEqual(status, 200, data[:500])
                answer = json.loads(events(data)[-1][1])["response"] if stream else json.loads(data)
                self.assertEqual(len(answer["output"]), 1)
                yield answer["output"][0]

    def bodies(self, session):
        return [one["body"] for one in fixture("codex") if one["session"].startswith(session)]

    def test_a_tool_of_a_namespace_is_called_by_both_of_its_names(self):
        for body, name, begin in ((self.bodies("tools")[0], "take_picture", "{}"),  # offered
                                  (self.bodies("large")[1], "find_orders", '{"filter"')):  # found by a search
            choice = {"type": "function", "name": name, "namespace": "mcp__shop"}
            for call in self.answers(body, choice):
                self.assertEqual([call["type"], call["namespace"], call["name"]], ["function_call", "mcp__shop", name])
                self.assertEqual(call["arguments"].replace(" ", "")[:len(begin)], begin)

    def test_its_search_for_tools_is_a_call_with_an_object(self):
        for call in self.answers(self.bodies("large")[0], {"type": "tool_search"}):
            self.assertEqual([call["type"], call["execution"]], ["tool_search_call", "client"])
            self.assertTrue(call["call_id"])
            self.assertIsInstance(call["arguments"]["query"], str)


def case(name):
    return type(name, (Replayed, unittest.TestCase), {"name": name})


for stem in sorted(path.stem for path in (HERE / "bodies").glob("*.json")):
    globals()[stem.title().replace("-", "")] = case(stem)


if __name__ == "__main__":
    unittest.main()
