#!/usr/bin/env python3
"""Random clients (valid, leaving, slow, wrong): memory must not grow, and nothing may hang or be malformed. Then
valid clients run next to a hostile one, which must not affect their answers.

    soak_test.py PROGRAM            SOAK_SECONDS=1200 for the long run (default 5; 1200 with FORETOKEN_FULL=1)

With FORETOKEN_FULL=1 the valid clients' first tokens must come within twice the time. Then runs alone and runs
beside the hostile client alternate, so that other work of the machine affects both.
"""
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from batch_test import mixed  # noqa: E402
from raw_client import Client, chat, frames  # noqa: E402
from server_process import Server  # noqa: E402

LONG = os.environ.get("FORETOKEN_FULL") == "1"
SECONDS = float(os.environ.get("SOAK_SECONDS", "1200" if os.environ.get("FORETOKEN_FULL") == "1" else "5"))
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


def memory_mb(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def metrics(server):
    """The metrics by name, without labelled samples."""
    with urllib.request.urlopen(server.url + "/metrics") as reply:
        lines = reply.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines)
            if name[:1] not in ("#", "") and "{" not in name}


def settles(holds, seconds=240):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.1)
    return holds()


class Hostile(threading.Thread):
    """Half-open request heads and bodies, trickling bytes, bodies beyond the limits, long texts, disconnects."""

    def __init__(self, url, seed):
        super().__init__()
        self.url, self.dice, self.over = url, random.Random(seed), threading.Event()
        self.half_open, self.acts = [], {}

    def run(self):
        acts = [self.opens_half, self.trickles, self.sends_too_much, self.sends_a_long_text, self.leaves]
        while not self.over.is_set():
            act = self.dice.choice(acts)
            try:
                act()
            except (OSError, EOFError):  # the server may end a hostile connection at any time
                pass
            self.acts[act.__name__] = self.acts.get(act.__name__, 0) + 1
            self.over.wait(0.02)
        for client in self.half_open:
            client.socket.close()

    def opens_half(self):
        client = Client(self.url, timeout=5)
        client.send(self.dice.choice([
            b"", b"POST /v1/chat", b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n{"]))
        self.half_open.append(client)
        if len(self.half_open) > 200:
            self.half_open.pop(0).socket.close()

    def trickles(self):
        with Client(self.url, timeout=5) as client:
            for byte in b"GET /health HTTP/1.1\r\nHost":
                client.send(bytes([byte]))
                if self.over.wait(0.01):
                    return

    def sends_too_much(self):
        with Client(self.url, timeout=5) as client:
            client.post("/v1/tokenize", b"x" * (33 << 20))
            client.answer()

    def sends_a_long_text(self):
        with Client(self.url, timeout=240) as client:
            client.post("/v1/tokenize", {"text": "1 a " * (100 << 10)})
            client.answer()

    def leaves(self):
        with Client(self.url, timeout=5) as client:
            client.post("/v1/chat/completions", chat("Tell a story.", max_tokens=3000, stream=True,
                                                     logit_bias=NEVER_ENDING))
            if self.dice.random() < 0.5:
                client.head()


class HostileProcess:
    """A hostile client in a process of low priority: its own work, such as a body of 33 MB, delays no innocent
    client of this process and takes no core that the server wants."""

    def __init__(self, server, seed):
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--hostile", server.url, str(seed)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def stop(self):
        """How often it did what."""
        acts = json.loads(self.process.communicate("\n")[0])
        assert self.process.returncode == 0
        return acts

    @staticmethod
    def main(url, seed):
        os.nice(19)
        hostile = Hostile(url, int(seed))
        hostile.start()
        sys.stdin.readline()  # until its parent stops it, or ends
        hostile.over.set()
        hostile.join()
        print(json.dumps(hostile.acts))


class Beside(unittest.TestCase):
    """Valid clients, alone and with a hostile client."""

    INNOCENT = 3
    REQUESTS = 100 if LONG else 8  # of each, in each phase
    PAIRS = 6 if LONG else 1  # of a phase alone and one beside the hostile client

    def phase(self, server):
        """Seconds to the first token of every answer; all answers must be right."""
        firsts, failures = [], []

        def live(seed):
            for i in range(self.REQUESTS):
                try:
                    with Client(server.url, timeout=300) as client:
                        start = time.monotonic()
                        client.post("/v1/chat/completions", chat("What is the capital of France?", max_tokens=12,
                                                                 stream=True, seed=seed * 1000 + i))
                        client.until(b'"content":')
                        firsts.append(time.monotonic() - start)
                        while b"[DONE]" not in client.received:
                            piece = client.socket.recv(65536)
                            assert piece, "the stream was cut off"
                            client.received += piece
                except Exception as failure:  # noqa: BLE001 - the test's own report
                    failures.append(repr(failure))

        clients = [threading.Thread(target=live, args=(seed,)) for seed in range(self.INNOCENT)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        self.assertEqual(len(firsts), self.INNOCENT * self.REQUESTS)
        return firsts

    def pair(self, server, seed):
        """The times of a phase alone and of one beside the hostile client."""
        alone = self.phase(server)
        hostile = HostileProcess(server, seed)
        try:
            if LONG and seed == 0:
                time.sleep(SECONDS / 4)
            beside = self.phase(server)
        finally:
            acts = hostile.stop()
        self.assertGreater(sum(acts.values()), 0)
        return alone, beside

    def test_innocent_clients_do_not_see_a_hostile_one(self):
        server = Server("--slots", "8", "--cache-mb", "64", "--head-timeout", "5", "--threads", "0").start()
        try:
            self.phase(server)  # the cache, the grammar's vocabulary and the allocator's arenas are there now
            before = memory_mb(server)
            alone, beside = [], []
            for seed in range(self.PAIRS):
                for times, more in zip((alone, beside), self.pair(server, seed)):
                    times += more
            # The server's own counts: disconnected clients hold no slot, queue place, or connection.
            quiet = {"foretoken_requests_running": 0, "foretoken_requests_waiting": 0,
                     "foretoken_http_connections": 1}
            self.assertTrue(settles(lambda: all(metrics(server)[name] == value for name, value in quiet.items())),
                            {name: metrics(server)[name] for name in quiet})
            counted = metrics(server)
            phases = 1 + 2 * self.PAIRS
            self.assertGreaterEqual(counted["foretoken_requests_total"], phases * self.INNOCENT * self.REQUESTS)
            self.assertEqual(counted["foretoken_requests_refused_total"], 0)
            if LONG:
                of = lambda times, share: 1e3 * sorted(times)[int(share * len(times))]  # noqa: E731
                for share in (0.5, 0.99):
                    print(f"first token, {share} of the requests: {of(alone, share):.1f} ms alone, "
                          f"{of(beside, share):.1f} beside", flush=True)
                self.assertLessEqual(of(beside, 0.99), 2 * of(alone, 0.99), "ms to the first token, p99")
                asked = urllib.request.Request(server.url + "/v1/cache", method="DELETE")
                urllib.request.urlopen(asked).read()
                self.assertTrue(settles(lambda: memory_mb(server) <= 1.05 * before),
                                f"{memory_mb(server):.0f} MB after, {before:.0f} before")
        finally:
            code = server.stop()
        self.assertEqual(code, 0)


class Soak(unittest.TestCase):
    def test_random_clients_leave_nothing_behind(self):
        server = Server("--slots", "4", "--cache-mb", "64", "--threads", "0").start()
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

        def idle():
            counted = metrics(server)
            return counted["foretoken_requests_running"] == counted["foretoken_requests_waiting"] == 0

        end = time.monotonic() + SECONDS
        clients = [threading.Thread(target=live, args=(seed,)) for seed in range(CLIENTS)]
        for client in clients:
            client.start()
        time.sleep(SECONDS / 3)
        settled = memory_mb(server)
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        deadline = time.monotonic() + 240
        while not idle() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertTrue(idle(), "a slot is stuck")
        self.assertLess(memory_mb(server) - settled, 80,
                        "MB more than after a third of the time; the cache may take 64")
        with Client(server.url) as client:
            client.post("/v1/chat/completions", chat("What is the capital of France?", max_tokens=12))
            self.assertIn("Paris", client.answer()[2].decode())
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--hostile"]:
        HostileProcess.main(*sys.argv[2:])
        sys.exit()
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
