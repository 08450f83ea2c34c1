#!/usr/bin/env python3
"""Client input beyond every limit: texts, schemas, and memory that runs out or is returned.

    inputs_test.py PROGRAM [CLASS]
"""
import json
import os
import re
import resource
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_test import WithServer  # noqa: E402
from raw_client import chat  # noqa: E402

MB = 1 << 20
LONG_TEXT = "long " * MB  # 5 MB; as many tokens
ANTHROPIC = ("anthropic-version: 2023-06-01",)


def nested(depth):
    schema = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def with_schema(schema, **more):
    return chat(max_tokens=8, response_format={
        "type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}, **more)


class Bounds(WithServer):
    flags = ("--context", "512")

    def refused(self, path, body, headers=()):
        status, _, answer = self.ask(path, body, headers)
        self.assertEqual(status, 400, answer)
        return json.loads(answer)["error"]

    def test_a_text_longer_than_the_context_is_refused_by_its_bytes(self):
        conversation = {"messages": [{"role": "user", "content": LONG_TEXT}]}
        for path, body, field in (
                ("/v1/completions", {"prompt": LONG_TEXT}, "prompt"),
                ("/v1/completions", {"prompt": "a", "suffix": LONG_TEXT}, None),
                ("/v1/chat/completions", conversation, "messages"),
                ("/v1/chat/completions", chat(prediction={"type": "content", "content": LONG_TEXT}), "prediction"),
                ("/v1/responses", {"input": LONG_TEXT}, "input"),
                ("/v1/responses/input_tokens", {"input": LONG_TEXT}, "input"),
                ("/v1/tokenize", {"text": LONG_TEXT}, "text"),
                ("/v1/tokenize", conversation, "messages")):
            with self.subTest(path=path, field=field):
                error = self.refused(path, body)
                if field is None:  # a model without fill-in-the-middle refuses it first
                    continue
                self.assertEqual((error["code"], error["param"]), ("context_length_exceeded", field))
                self.assertRegex(error["message"],
                                 r"too long: at least \d+ tokens \(\d{7} bytes\) > 511 maximum")

    def test_anthropics_clients_are_told_too(self):
        conversation = {"max_tokens": 5, "messages": [{"role": "user", "content": LONG_TEXT}]}
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            error = self.refused(path, conversation, ANTHROPIC)
            self.assertEqual(error["type"], "invalid_request_error")
            self.assertRegex(error["message"], r"prompt is too long: at least \d+ tokens")

    def test_tokens_may_be_counted_beyond_the_context(self):
        status, _, answer = self.ask("/v1/tokenize", {"text": "word " * 2000})
        self.assertEqual(status, 200, answer)
        self.assertGreater(json.loads(answer)["count"], 511)

    def test_a_prediction_beyond_the_context_is_refused(self):
        error = self.refused("/v1/chat/completions",
                             chat(prediction={"type": "content", "content": "word " * 2000}))
        self.assertEqual(error["param"], "prediction")

    def test_the_ends_of_ranges(self):
        status, _, answer = self.ask("/v1/chat/completions", chat(max_tokens=2, min_p=1))
        self.assertEqual(status, 200, answer)
        self.assertEqual(self.refused("/v1/chat/completions", chat(min_p=1.01))["param"], "min_p")
        body = {"max_tokens": 5, "messages": [{"role": "user", "content": "Hi"}], "stop_sequences": "END"}
        self.assertIn("stop_sequences", self.refused("/v1/messages", body, ANTHROPIC)["message"])


class SchemaBounds(WithServer):
    def test_a_schema_that_cannot_be_used_is_the_clients_fault_in_words(self):
        wide = {"type": "object", "properties": {f"p{i:x}": {} for i in range(9000)}}
        for name, schema, words in (
                ("nothing", {"$ref": "#"}, "allows no text"),
                ("large", {"type": "object", "description": "x" * (1 << 17)}, "more than the limit of 131072"),
                ("deep", nested(40), "nested 8"),
                ("wide", wide, "limit"),
                ("unknown", {"type": "nonsense"}, "nonsense"),
                ("no reference", {"$ref": "#/$defs/none"}, "none")):
            for stream in (False, True):
                with self.subTest(name, stream=stream):
                    status, _, answer = self.ask("/v1/chat/completions", with_schema(schema, stream=stream))
                    self.assertEqual(status, 400, answer[:300])
                    error = json.loads(answer)["error"]
                    self.assertEqual(error["type"], "invalid_request_error")
                    self.assertTrue(error["param"].startswith("response_format"), error)
                    self.assertIn(words, error["message"])
                    self.assertNotRegex(error["message"], r"NoExtension|[a-z]TooComplex|InternalError")

    def test_tools_that_cannot_be_used_are_the_clients_fault(self):
        def tool(name, parameters):
            return {"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}}
        many = [tool(f"f{i}", {"type": "object"}) for i in range(513)]
        for name, tools in (("many", many), ("deep", [tool("f", nested(40))])):
            with self.subTest(name):
                status, _, answer = self.ask("/v1/chat/completions",
                                             chat(max_tokens=4, tools=tools, tool_choice="required"))
                self.assertEqual(status, 400, answer[:300])
                self.assertTrue(json.loads(answer)["error"]["param"].startswith("tools"), answer[:300])


class Memory(WithServer):
    flags = ("--cache-mb", "256", "--slots", "2")

    def status_mb(self, name):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return int(re.search(rf"{name}:\s+(\d+)", status.read()).group(1)) / 1024

    def test_a_cleared_cache_gives_its_memory_back(self):
        for i in range(5):
            status, _, answer = self.ask("/v1/completions", {"prompt": f"{i} " + "once upon a time " * 250,
                                                             "max_tokens": 2})
            self.assertEqual(status, 200, answer)
        held = json.loads(urllib.request.urlopen(self.server.url + "/v1/cache").read())["size"] / MB
        self.assertGreater(held, 5, "MB: too little to see")
        full = self.status_mb("VmRSS")
        asked = urllib.request.Request(self.server.url + "/v1/cache", method="DELETE")
        self.assertTrue(json.loads(urllib.request.urlopen(asked).read())["cleared"])
        given = lambda: full - self.status_mb("VmRSS")  # noqa: E731
        self.assertTrue(self.eventually(lambda: given() > held / 2),
                        f"{given():.0f} of {held:.0f} MB came back")
        status, _, answer = self.ask("/v1/completions", {"prompt": "0 " + "once upon a time " * 250, "max_tokens": 2})
        self.assertEqual(status, 200, answer)


@unittest.skipIf(os.environ.get("SANITIZED_TESTS"), "a sanitizer reserves all addresses")
class MemoryEnd(WithServer):
    flags = ("--context", "4096", "--slots", "1", "--cache-mb", "8")

    def test_a_text_without_room_is_that_requests_507(self):
        text = "a " * (200 << 10)  # 400 kB, within the bound of bytes
        status, _, answer = self.ask("/v1/tokenize", {"text": text})
        self.assertEqual(status, 200, answer[:200])
        pid = self.server.process.pid
        with open(f"/proc/{pid}/status", encoding="ascii") as found:
            used = int(re.search(r"VmSize:\s+(\d+)", found.read()).group(1)) << 10
        for room_mb in (100, 60, 30):
            with self.subTest(room_mb=room_mb):
                resource.prlimit(pid, resource.RLIMIT_AS, (used + room_mb * MB, resource.RLIM_INFINITY))
                status, _, answer = self.ask("/v1/tokenize", {"text": text})
                self.assertEqual(status, 507, answer[:200])
                self.assertIn("memory", json.loads(answer)["error"]["message"])
                status, _, answer = self.ask("/v1/tokenize", {"text": "short"})
                self.assertEqual(status, 200, answer)
        resource.prlimit(pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        self.assertEqual(self.ask("/v1/tokenize", {"text": text})[0], 200)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
