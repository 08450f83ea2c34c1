#!/usr/bin/env python3
"""Random clients for a while: polite, leaving, slow, wrong. Nothing may grow, stick or be malformed.

    soak_test.py PROGRAM            SOAK_SECONDS=1200 for the long run (default 10; 1200 with FORETOKEN_FULL=1)
"""
import json
import os
import random
import re
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from batch_test import mixed  # noqa: E402
from raw_client import Client, chat, frames  # noqa: E402
from server_process import Server  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "1200" if os.environ.get("FORETOKEN_FULL") == "1" else "10"))
CLIENTS = 12
NEVER_ENDING = {"8178": -100, "8180": -100}


def whole(client, dice):
    client.post("/v1/chat/completions", mixed(dice.randrange(64)))
    status, _, body = client.answer()
    assert status == 200, body
    json.loads(body)


def streamed(client, dice):
    client.post("/v1/chat/completions", {**mixed(dice.randrange(64)), "stream": True,
                                         "stream_options": {"include_usage": True}})
    status, _, body = client.answer()
    assert status == 200, body
    assert sum(1 for frame in frames(body) if frame.get("usage")) == 1


def leaving(client, dice):
    client.post("/v1/chat/completions", chat("Tell a story. " * dice.randrange(1, 300), max_tokens=3000,
                                             stream=dice.random() < 0.7, logit_bias=NEVER_ENDING))
    time.sleep(dice.random() * 0.5)


def slow(client, dice):
    client.post("/v1/chat/completions", chat("Count.", max_tokens=dice.randrange(1, 60), stream=True))
    client.head()
    received = client.received
    while b"[DONE]" not in received:
        time.sleep(0.01)
        received += client.socket.recv(500)


def wrong(client, dice):
    body = bytearray(json.dumps(mixed(dice.randrange(64))).encode())
    for _ in range(dice.randrange(1, 6)):
        body[dice.randrange(len(body))] = dice.randrange(256)
    client.post(dice.choice(["/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages",
                             "/v1/tokenize", "/nothing"]), bytes(body))
    status, _, answer = client.answer()
    assert status < 500, answer
    if status != 200:
        json.loads(answer)


def messages(client, dice):
    client.post("/v1/messages", {"max_tokens": 20, "stream": dice.random() < 0.5,
                                 "messages": [{"role": "user", "content": "Hello"}]})
    status, _, body = client.answer()
    assert status == 200, body


class Soak(unittest.TestCase):
    def test_random_clients_leave_nothing_behind(self):
        server = Server("--slots", "4", "--cache-mb", "64").start()
        failures = []

        def live(seed):
            dice = random.Random(seed)
            while time.monotonic() < end and not failures:
                act = dice.choice([whole, whole, streamed, streamed, leaving, slow, wrong, messages])
                try:
                    with Client(server.url, timeout=120) as client:
                        act(client, dice)
                except Exception as failure:  # noqa: BLE001 - the test's own report
                    failures.append(f"{act.__name__}: {failure!r}")

        def memory_mb():
            with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
                return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

        def idle():
            with urllib.request.urlopen(server.url + "/metrics") as reply:
                text = reply.read().decode()
            return all(re.search(rf"^foretoken_requests_{what} 0$", text, re.M) for what in ("running", "waiting"))

        end = time.monotonic() + SECONDS
        clients = [threading.Thread(target=live, args=(seed,)) for seed in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(SECONDS / 3)
        settled = memory_mb()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        deadline = time.monotonic() + 20
        while not idle() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(idle(), "a slot is stuck")
        self.assertLess(memory_mb() - settled, 80, "MB more than after a third of the time; the cache may take 64")
        with Client(server.url) as client:
            client.post("/v1/chat/completions", chat("What is the capital of France?", max_tokens=12))
            self.assertIn("Paris", client.answer()[2].decode())
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
