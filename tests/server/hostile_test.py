#!/usr/bin/env python3
"""Clients with expensive requests next to innocent ones, whose answers must equal a run alone. Then: grammars
of clients who have left are not compiled. Standard library only.

    hostile_test.py PROGRAM [CLASS]

FORETOKEN_FULL=1 runs longer, and the innocent clients' first tokens must come within twice the time. Then runs alone
and runs with hostile clients alternate, so that other work of the machine affects both.
"""
import json
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client, chat, frames  # noqa: E402
from server_process import ROOT, Server  # noqa: E402

FULL = os.environ.get("FORETOKEN_FULL") == "1"
MODEL = ROOT / "assets/qwen3.5-tiny"
# The work of a hostile template when a message has one of these words.
HOSTILE_TEMPLATE = """
{%- set ns = namespace(s='x') -%}
{%- if messages[0].content == 'doubling' -%}{%- for i in range(60) -%}{%- set ns.s = ns.s ~ ns.s -%}{%- endfor -%}
{%- elif messages[0].content == 'loops' -%}
{%- for i in range(90000) -%}{%- for j in range(90000) -%}{%- set ns.n = j -%}{%- endfor -%}{%- endfor -%}
{%- elif messages[0].content == 'texts' -%}{%- set ns.s = 'x' * 100000 -%}
{%- for i in range(90000) -%}{%- set ns.t = ns.s.replace('x', 'y') -%}{%- endfor -%}
{%- elif messages[0].content == 'output' -%}{%- for i in range(90000) -%}{{ 'x' * 90000 }}{%- endfor -%}
{%- endif -%}
"""


def schema_body(schema, dice):
    """A schema at the place where each dialect has one."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": schema},
                                                                       "required": ["a"]}}}
    return dice.choice([
        ("/v1/chat/completions", chat("x", max_tokens=1, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}})),
        ("/v1/chat/completions", chat("x", max_tokens=1, tools=[tool], tool_choice="required")),
        ("/v1/responses", {"input": "x", "max_output_tokens": 16, "tools": [{"type": "function", **tool["function"]}],
                           "tool_choice": "required"}),
        ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}],
                          "tools": [{"name": "f", "input_schema": tool["function"]["parameters"]}],
                          "tool_choice": {"type": "any"}}),
    ])


def slow_schema(dice):
    """A schema within the limits that takes as long as possible; all are different."""
    low = -10**15 + dice.randrange(10**9)
    return {"type": "object", "properties": {f"p{i}": {"type": "integer", "minimum": low + i, "maximum": i - low}
                                             for i in range(500)}}


def grammars(dice):  # N3
    return schema_body(dice.choice([
        {"type": "integer", "multipleOf": 9999991}, {"type": "integer", "multipleOf": 99999999},
        {"type": "number", "multipleOf": 0.0000001}, {"type": "string", "pattern": "^((a{500}){500}){500}$"},
        {"allOf": [{"multipleOf": 9973}, {"multipleOf": 9967}]}, slow_schema(dice), slow_schema(dice)]), dice)


def keys(dice):  # N4
    many = {f"k{i}": i for i in range(dice.choice([9_000, 20_000, 200_000]))}
    return dice.choice([
        ("/v1/chat/completions", chat("x", max_tokens=1, metadata=many)),
        ("/v1/chat/completions", {**chat("x", max_tokens=1), **many}),
        ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "metadata": many}),
        ("/v1/responses", {"input": [{"role": "user", "content": "x", **many}], "max_output_tokens": 16}),
        schema_body({"type": "object", "properties": many}, dice),
        schema_body({"enum": [many]}, dice)])


def addresses(dice):  # N5: pictures at another server, in letters that no search of the text finds
    url = dice.choice(["\\u0068ttp:\\/\\/192.0.2.1/a.png", "h\\u0074tps://192.0.2.1/a.png", "HTTP://192.0.2.1/a"])
    body = chat([{"type": "image_url", "image_url": {"url": "THERE"}}, {"type": "text", "text": "x"}], max_tokens=1)
    return "/v1/chat/completions", json.dumps(body).replace("THERE", url).encode()


def templates(dice):  # N6
    return "/v1/chat/completions", chat(dice.choice(["doubling", "loops", "texts", "output"]), max_tokens=1)


class Hand(threading.Thread):
    """Sends bodies of one kind in sequence; waits for some answers and leaves before others."""

    def __init__(self, server, kind, seed):
        super().__init__()
        self.server, self.kind, self.dice = server, kind, random.Random(seed)
        self.over, self.sent, self.wrong = threading.Event(), 0, []

    def run(self):
        while not self.over.is_set():
            path, body = self.kind(self.dice)
            try:
                with Client(self.server.url, timeout=300) as client:
                    client.post(path, body)
                    self.sent += 1
                    if self.dice.random() < 0.7:
                        status, _, answer = client.answer()
                        if status not in (200, 400, 429):
                            self.wrong.append((status, answer[:300]))
            except OSError as failure:
                self.wrong.append(repr(failure))
            self.over.wait(0.01)


class Beside(unittest.TestCase):
    INNOCENT = 2
    REQUESTS = 10 if FULL else 2
    PAIRS = 6 if FULL else 1  # a run alone and one with hostile clients
    HANDS = 3

    def innocents(self, server):
        """The answers by client and number, and the seconds to the first token of each."""
        answers, firsts, failures = {}, [], []

        def live(seed):
            try:
                for i in range(self.REQUESTS):
                    with Client(server.url, timeout=300) as client:
                        start = time.monotonic()
                        client.post("/v1/chat/completions", chat(
                            f"Write a sentence about the number {seed * 100 + i}.", max_tokens=16, stream=True,
                            temperature=0.8, seed=i))
                        head = client.until(b'"content":"')
                        firsts.append(time.monotonic() - start)
                        client.received = head + client.received
                        _, _, body = client.answer()
                        answers[seed, i] = "".join(frame["choices"][0]["delta"].get("content") or ""
                                                   for frame in frames(body) if frame["choices"])
            except Exception as failure:  # noqa: BLE001 - the test's own report
                failures.append(repr(failure))

        clients = [threading.Thread(target=live, args=(seed,)) for seed in range(self.INNOCENT)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        return answers, firsts

    def pair(self, server, kind):
        """Seconds to the first tokens, alone and with hostile clients, and the number of their requests."""
        alone, alone_firsts = self.innocents(server)
        hands = [Hand(server, kind, seed) for seed in range(self.HANDS)]
        for hand in hands:
            hand.start()
        try:
            while not all(hand.sent for hand in hands):
                time.sleep(0.01)
            answers, firsts = self.innocents(server)
        finally:
            for hand in hands:
                hand.over.set()
            for hand in hands:
                hand.join()
        self.assertEqual(answers, alone)
        self.assertEqual([hand.wrong for hand in hands], [[]] * self.HANDS)
        return alone_firsts, firsts, sum(hand.sent for hand in hands)

    def beside(self, server, kind):
        alone, firsts, sent = [], [], 0
        for _ in range(self.PAIRS):
            times = self.pair(server, kind)
            alone += times[0]
            firsts += times[1]
            sent += times[2]
        middle = lambda times: sorted(times)[len(times) // 2]  # noqa: E731
        print(f"{kind.__name__}: {sent} hostile requests; the middle first token after {1e3 * middle(firsts):.0f} ms, "
              f"{1e3 * middle(alone):.0f} alone, ratio {middle(firsts) / middle(alone):.2f}", flush=True)
        if FULL:
            self.assertLessEqual(middle(firsts), 2 * middle(alone), kind.__name__)

    def test_answers_beside_each_hostile_kind_are_those_of_a_run_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model")
            shutil.copytree(MODEL, model)
            with open(os.path.join(model, "chat_template.jinja"), "r+", encoding="utf-8") as template:
                text = HOSTILE_TEMPLATE.strip() + template.read()
                template.seek(0)
                template.write(text)
            with Server("--model", model, "--slots", "4", "--cache-mb", "64", "--image-urls") as server:
                self.innocents(server)  # the vocabulary of grammars and the cache are there now
                for kind in (grammars, keys, addresses, templates):
                    with self.subTest(kind=kind.__name__):
                        self.beside(server, kind)


class Grammars(unittest.TestCase):
    """Compilations belong to their clients."""

    WAITING = 30

    def leave_behind(self, server, seed):
        """Clients with slow schemas, which have sent everything."""
        dice = random.Random(seed)
        clients = []
        for _ in range(self.WAITING):
            client = Client(server.url)
            client.post("/v1/chat/completions", chat("x", max_tokens=1, response_format={
                "type": "json_schema", "json_schema": {"name": "x", "schema": slow_schema(dice)}}))
            clients.append(client)
        return clients

    def test_a_grammar_is_not_compiled_for_a_client_who_has_left(self):
        with Server() as server:
            for client in self.leave_behind(server, 1):
                client.socket.close()
            with Client(server.url) as client:
                client.post("/v1/chat/completions", chat("Hello", max_tokens=4, response_format={
                    "type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "integer"}}}))
                self.assertEqual(client.answer()[0], 200)
            # The lane takes them in order, so all of them are over.
            begun = [line for line in server.requests() if line["status"] != 503]
            self.assertLess(len(begun), self.WAITING / 2, begun)

    def test_a_server_that_stops_begins_no_grammar(self):
        server = Server().start()
        clients = self.leave_behind(server, 2)
        self.assertEqual(server.stop(), 0)
        for client in clients:
            client.socket.close()
        answered = [line for line in server.requests() if line["status"] == 200]
        self.assertLess(len(answered), self.WAITING / 2, answered)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
