#!/usr/bin/env python3
"""A coding agent's conversation with the default flags: 12 turns (FORETOKEN_FULL=1: 30) in the shape of Claude Code,
a changed date line, a compaction, side requests, a restart. Standard library only.

    agent_test.py PROGRAM [CLASS]

At least 95 % of the tokens that a prompt shares with an earlier prompt must come from the cache. A turn shares the
whole earlier prompt except the header of the answer; the turn with another date shares the text before the date;
the turn after the compaction shares system prompt and tools.
"""
import json
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client  # noqa: E402
from server_process import SIZES, Server  # noqa: E402
from short_model import short_model  # noqa: E402

SHARE = 0.95
HEADER = 24  # tokens around the place where prompts diverge: headers of messages, a part of a date
FULL = os.environ.get("FORETOKEN_FULL") == "1"
TURNS, DATE_CHANGES, COMPACTS = (30, 12, 24) if FULL else (12, 4, 7)
WORDS = 320 if FULL else 130  # of a tool's result
# Fixed, so that the sizes chosen at start do not depend on other programs or parallel tests.
MEMORY = ("--memory-mb", "6000")
DEFAULTS = {name: "auto" for name in SIZES}


class Agent:
    """Bodies of POST /v1/messages, as Claude Code sends them."""

    def __init__(self):
        self.random = random.Random(7)
        self.date = "2026-07-30"
        self.rules = "\n".join(f"- Rule {i}: {self.words(22)}" for i in range(60))
        self.tools = [{"name": f"Tool{i}", "description": self.words(90),
                       "input_schema": {"type": "object", "required": ["path"], "properties": {
                           "path": {"type": "string", "description": self.words(12)},
                           "limit": {"type": "integer", "description": self.words(12)}}}}
                      for i in range(14 if FULL else 8)]
        self.messages = []

    def words(self, count):
        stock = "file line return value test error class import path number list item read write check loop".split()
        return " ".join(self.random.choice(stock) + str(self.random.randrange(40)) for _ in range(count))

    def body(self, system_until_date=False, messages=None):
        text = f"You are a coding agent.\n{self.rules}\n<env>\nWorking directory: /work\nToday's date: "
        if not system_until_date:
            text += f"{self.date}\n</env>\n"
        return {"model": "any", "max_tokens": 16, "temperature": 0, "thinking": {"type": "disabled"},
                "system": [{"type": "text", "text": "You are the official CLI."},
                           {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}],
                "tools": self.tools, "tool_choice": {"type": "auto"},
                "messages": self.messages if messages is None else messages}

    def next_body(self, turn):
        if turn == DATE_CHANGES:
            self.date = "2026-07-31"
        if turn == COMPACTS:
            self.messages = [{"role": "user", "content": f"Summary of the conversation so far: {self.words(200)}"},
                             {"role": "assistant", "content": "I continue."}]
        reminder = "<system-reminder>\nMind the tests.\n</system-reminder>\n"
        result = {"type": "text", "text": reminder + self.words(WORDS)}
        last = self.messages[-1]["content"] if self.messages else []
        calls = [block for block in last if isinstance(block, dict) and block["type"] == "tool_use"]
        if calls:
            result = {"type": "tool_result", "tool_use_id": calls[0]["id"], "content": self.words(WORDS)}
        self.messages.append({"role": "user", "content": [result]})
        return self.body()

    def remember(self, answer, turn):
        blocks = [block for block in answer["content"] if block["type"] == "text" and block["text"].strip()]
        call = {"type": "tool_use", "id": f"toolu_{turn}", "name": "Tool3", "input": {"path": f"/work/{turn}.py"}}
        self.messages.append({"role": "assistant", "content": blocks + [call]})


def post(server, path, body):
    with Client(server.url, timeout=600) as client:
        client.post(path, body)
        status, _, text = client.answer()
        assert status == 200, text
        return json.loads(text)


def count(server, body):
    kept = {key: body[key] for key in ("model", "system", "tools", "tool_choice", "messages")}
    return post(server, "/v1/messages/count_tokens", kept)["input_tokens"]


def resident_mb(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


class Conversation(unittest.TestCase):
    def turn(self, server, agent, turn, shared):
        answer = post(server, "/v1/messages", agent.next_body(turn))
        usage = answer["usage"]
        read = usage["cache_read_input_tokens"]
        prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + read
        self.assertGreaterEqual(read, SHARE * (shared - HEADER), f"turn {turn}: of {prompt} tokens, {shared} shared")
        agent.remember(answer, turn)
        return prompt

    def test_each_turn_takes_what_it_shares_from_the_cache_and_so_does_one_after_a_restart(self):
        with tempfile.TemporaryDirectory() as home:
            flags = (*MEMORY, "--cache-dir", "auto", "--any-model", "--model", short_model())
            environment = {**DEFAULTS, "XDG_CACHE_HOME": home}
            agent = Agent()
            with Server(*flags, environment=environment) as server:
                self.assertEqual(server.facts["context"], 32768)
                before = 0
                for turn in range(TURNS - 2):
                    shared = before
                    hello = [{"role": "user", "content": "Hi"}]
                    if turn == DATE_CHANGES:
                        shared = count(server, agent.body(True, hello)) - HEADER
                    elif turn == COMPACTS:
                        shared = count(server, agent.body(messages=hello)) - HEADER
                    before = self.turn(server, agent, turn, shared)
                    if turn % 3 == 0:  # a title for the conversation
                        post(server, "/v1/messages", {"model": "any", "max_tokens": 8,
                                                      "messages": [{"role": "user", "content": agent.words(60)}]})
            self.assertGreater(before, 9000 if FULL else 4000)
            folders = list(pathlib.Path(home, "foretoken", "prompts").iterdir())
            self.assertEqual(len(folders), 1)
            with Server(*flags, environment=environment) as server:
                for turn in range(TURNS - 2, TURNS):
                    before = self.turn(server, agent, turn, before)
                with Server(*flags, environment=environment) as second:  # takes another folder
                    self.assertEqual(count(second, agent.body()) > 0, True)
            self.assertEqual(len(list(pathlib.Path(home, "foretoken", "prompts").iterdir())), 2)


class Memory(unittest.TestCase):
    def test_what_a_start_decides_is_said_and_memory_is_taken_only_with_use(self):
        with Server(*MEMORY, environment=DEFAULTS) as server:
            facts = server.facts
            self.assertEqual((facts["context"], facts["slots"]), (32768, 8))
            self.assertGreater(facts["cache_mb"], 1000)
            idle = resident_mb(server)
            self.assertLess(idle, 700, "contexts and cache are not there before they are used")
            post(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": "word " * 3000}],
                                                  "max_tokens": 1})
            self.assertLess(resident_mb(server) - idle, 700)

    def test_less_memory_gives_less_and_says_so(self):
        with Server("--memory-mb", "700", "--slots", "2", environment=DEFAULTS) as server:
            self.assertLess(server.facts["context"], 32768)
            self.assertGreaterEqual(server.facts["context"], 4096)


if __name__ == "__main__":
    os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
