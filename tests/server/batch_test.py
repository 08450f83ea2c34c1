#!/usr/bin/env python3
"""A request gets the same answer in any batch: concurrent requests, cold and warm, equal their single runs, and
every answer with a schema follows it, with drafts. Standard library only.

    batch_test.py PROGRAM [CLASS]

FORETOKEN_FULL=1 takes 64 requests at 1, 3 and 8 slots, and 200 answers by schema.
"""
import concurrent.futures
import json
import os
import sys
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import chat  # noqa: E402
from server_process import Server  # noqa: E402

FULL = os.environ.get("FORETOKEN_FULL") == "1"
REQUESTS = 64 if FULL else 16
SLOTS = (1, 3, 8) if FULL else (3,)
SCHEMA_RUNS = 200 if FULL else 24

PERSON = {"type": "object", "additionalProperties": False, "required": ["name", "age", "tags"],
          "properties": {"name": {"type": "string", "maxLength": 24}, "age": {"type": "integer", "minimum": 0,
                                                                              "maximum": 130},
                         "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3}}}
WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "required": ["city"],
                   "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}}}


def ask(server, body):
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as reply:
        return json.loads(reply.read())


def by_schema(seed, **more):
    return chat(f"Describe person number {seed} as JSON.", max_tokens=160, temperature=1, seed=seed,
                response_format={"type": "json_schema",
                                 "json_schema": {"name": "person", "strict": True, "schema": PERSON}}, **more)


def mixed(i):
    """The i-th of a sequence of requests that differ in every relevant field."""
    kinds = [
        lambda: chat(f"Write one sentence about the number {i}.", max_tokens=24),
        lambda: chat(f"Write a haiku about the number {i}.", max_tokens=32, temperature=0.9, seed=i),
        lambda: chat(f"Count from {i}.", max_tokens=24, temperature=0.7, seed=i, presence_penalty=1,
                     frequency_penalty=0.5, repetition_penalty=1.1),
        lambda: chat(f"How is the weather in town {i}?", max_tokens=64, temperature=0.6, seed=i, tools=[WEATHER]),
        lambda: chat(f"How is the weather in town {i}?", max_tokens=96, temperature=1, seed=i, tools=[WEATHER],
                     tool_choice="required"),
        lambda: by_schema(i),
        lambda: chat(f"List {i % 5 + 2} animals.", max_tokens=32, temperature=0.8, seed=i, stop=["\n", "."], n=2),
        lambda: chat("Hello! " * (i % 40 + 1), max_tokens=16, temperature=0.8, seed=i, logprobs=True,
                     top_logprobs=2, logit_bias={"11": -2}),
    ]
    return kinds[i % len(kinds)]()


def what_was_said(answer):
    """The answer without ids, which are new each time."""
    choices = json.loads(json.dumps(answer["choices"]))
    for choice in choices:
        for call in choice["message"].get("tool_calls") or []:
            del call["id"]
    return choices


def follows_person(text):
    value = json.loads(text)
    return (set(value) == {"name", "age", "tags"} and isinstance(value["name"], str) and len(value["name"]) <= 24
            and isinstance(value["age"], int) and 0 <= value["age"] <= 130 and len(value["tags"]) <= 3
            and set(value["tags"]) <= {"red", "green", "blue"})


class Batches(unittest.TestCase):
    def test_mixed_requests_together_equal_their_lone_runs_cold_and_warm(self):
        bodies = [mixed(i) for i in range(REQUESTS)]
        with Server("--slots", "1", "--cache-mb", "0") as server:
            alone = [what_was_said(ask(server, {**body, "speculation": "off"})) for body in bodies]
        for slots in SLOTS:
            with Server("--slots", str(slots)) as server:
                for state in ("cold", "warm"):
                    with concurrent.futures.ThreadPoolExecutor(REQUESTS) as pool:
                        answers = list(pool.map(lambda body, to=server: ask(to, body), bodies))
                    for i, answer in enumerate(answers):
                        self.assertEqual(what_was_said(answer), alone[i], f"request {i}, {slots} slots, {state}")


class Schemas(unittest.TestCase):
    def test_every_answer_by_schema_is_valid_and_drafted(self):
        with Server() as server, concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda seed: ask(server, by_schema(seed)), range(SCHEMA_RUNS)))
        for seed, answer in enumerate(answers):
            choice = answer["choices"][0]
            self.assertEqual(choice["finish_reason"], "stop", (seed, choice))
            self.assertTrue(follows_person(choice["message"]["content"]), (seed, choice))
            self.assertTrue(answer["speculation"]["engaged"], (seed, answer["speculation"]))

    def test_a_required_tool_is_called_with_arguments_that_fit(self):
        with Server() as server, concurrent.futures.ThreadPoolExecutor(4) as pool:
            bodies = [chat(f"Tell me about {i}.", max_tokens=200, temperature=1, seed=i, tools=[WEATHER],
                           tool_choice={"type": "function", "function": {"name": "get_weather"}})
                      for i in range(SCHEMA_RUNS // 4)]
            answers = list(pool.map(lambda body: ask(server, body), bodies))
        for answer in answers:
            choice = answer["choices"][0]
            if choice["finish_reason"] == "length":
                continue  # a city's name of 200 tokens
            self.assertEqual(choice["finish_reason"], "tool_calls", choice)
            self.assertEqual(len(choice["message"]["tool_calls"]), 1)
            function = choice["message"]["tool_calls"][0]["function"]
            arguments = json.loads(function["arguments"])
            self.assertEqual(function["name"], "get_weather")
            self.assertIsInstance(arguments["city"], str)
            self.assertIsInstance(arguments.get("days", 0), int)

    def test_a_thinking_budget_is_kept(self):
        with Server() as server:
            for budget in (0, 5, 20):
                body = chat("What is 2 + 2?", max_tokens=120, temperature=0.8, seed=3, thinking_budget=budget,
                            chat_template_kwargs={"enable_thinking": True})
                drafted, plain = ask(server, body), ask(server, {**body, "speculation": "off"})
                self.assertEqual(what_was_said(drafted), what_was_said(plain))
                reasoning = drafted["usage"]["completion_tokens_details"]["reasoning_tokens"]
                self.assertLessEqual(reasoning, budget + 8, "the closing sequence comes on top")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
