#!/usr/bin/env python3
"""The overhead of the server over the engine, measured at a running server. Standard library only.

    server_path.py URL [PART...]    foretoken serve --threads 2 --context 16384, clients on other processors

overhead  a client's wall time minus the engine's prompt and decode times, for answers of one token and for streamed
          answers of 200. For the latter also the time until the first token minus the engine's (the answers of one
          token show its first round), and the excess of the rest over the engine's decode time
pace      tokens/s of a running answer while another client's prompt of some 10,000 tokens is read, relative to its
          mean pace before and after
leaving   milliseconds from a client's disconnect, in its prompt and while decoding, until its slot is free
"""
import json
import re
import socket
import statistics
import sys
import threading
import time
import urllib.request

PROMPTS = ("Write a Python function `fibonacci` that returns the nth Fibonacci number.",
           "Write a dataclass Point with the fields x and y.", "What is the capital of France?",
           "Count from one to twenty in words.")


class Server:
    def __init__(self, url):
        self.url = url.rstrip("/")
        host, port = re.fullmatch(r"http://(.*):(\d+)", self.url).groups()
        self.address = (host, int(port))
        with urllib.request.urlopen(self.url + "/props") as reply:
            self.props = json.load(reply)
        self.endless = {str(token): -100 for token in self.ends()}  # as a bias: no answer ends by itself

    def ends(self):
        ids = []
        for text in ("<|im_end|>", "<|endoftext|>"):
            body = json.dumps({"text": text}).encode()
            with urllib.request.urlopen(urllib.request.Request(self.url + "/v1/tokenize", body)) as reply:
                tokens = json.load(reply)["tokens"]
            ids += tokens if len(tokens) == 1 else []
        return ids

    def ask(self, text, **more):
        """A connection on which the answer comes."""
        body = json.dumps({"messages": [{"role": "user", "content": text}], **more}).encode()
        connection = socket.create_connection(self.address)
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n"
                           b"Content-Length: %d\r\n\r\n" % len(body) + body)
        return connection

    def metric(self, name):
        with urllib.request.urlopen(self.url + "/metrics") as reply:
            return float(re.search(rf"^foretoken_{name} (\S+)$", reply.read().decode(), re.M).group(1))


def read_all(connection):
    """A whole answer, and the time at which the first piece with a token came."""
    received, first = b"", None
    with connection:
        while piece := connection.recv(1 << 20):
            received += piece
            if first is None and re.search(rb'"(content|text)":"[^"]', received):
                first = time.perf_counter()
    return received.decode(), first or time.perf_counter()


def timings_of(answer):
    """The last timings in an answer, streamed or not."""
    found = re.findall(r'"timings":(\{[^{}]*\})', answer)
    return json.loads(found[-1])


def times(server, speculation, stream, tokens, requests=60):
    """For each answer, in ms: wall time, prompt, decoding, time until the first token."""
    found = []
    for i in range(requests):
        start = time.perf_counter()
        answer, first = read_all(server.ask(
            f"({speculation} {stream} {i}) {PROMPTS[i % 4]}", temperature=0, stream=stream, max_tokens=tokens,
            speculation=speculation, logit_bias=server.endless,
            **({"stream_options": {"include_usage": True}} if stream else {})))
        end = time.perf_counter()
        engine = timings_of(answer)
        found.append(((end - start) * 1e3, engine["prompt_ms"], engine["predicted_ms"], (first - start) * 1e3))
    return found[requests // 2:]  # skips the first half, which touches new memory


def overhead(server, speculation):
    short = times(server, speculation, False, 1)
    beside = statistics.median(wall - prompt - decode for wall, prompt, decode, _ in short)
    print(f"overhead, speculation {speculation:4}  one token: {beside:.2f} ms", flush=True)
    round_ms = statistics.median(decode for _, _, decode, _ in short)
    long = times(server, speculation, True, 200)
    beside = statistics.median(wall - prompt - decode for wall, prompt, decode, _ in long)
    share = statistics.median((wall - prompt - decode) / wall for wall, prompt, decode, _ in long)
    first = statistics.median(first - prompt - round_ms for _, prompt, _, first in long)
    rest = statistics.median((wall - first) / (decode - round_ms) - 1 for wall, _, decode, first in long)
    print(f"overhead, speculation {speculation:4}  200 tokens, streamed: {beside:.2f} ms, "
          f"{100 * share:.1f} % of the wall; first token {first:.2f} ms, the rest {100 * rest:+.1f} %", flush=True)


def pace(server, speculation, number):
    """The pace of a story without an end, in tokens/s: before, during and after another client's prompt."""
    with server.ask(f"Tell a long story {number}.", temperature=0.8, seed=number, max_tokens=15000, stream=True,
                    speculation=speculation, logit_bias=server.endless) as story:
        threading.Thread(target=lambda: drain(story), daemon=True).start()
        time.sleep(1)

        def speed(while_running):
            start, tokens = time.perf_counter(), server.metric("completion_tokens_total")
            while_running()
            return (server.metric("completion_tokens_total") - tokens) / (time.perf_counter() - start)

        words = " ".join(f"word{i % 977}" for i in range(1300))
        before = speed(lambda: time.sleep(1))
        during = speed(lambda: read_all(server.ask(f"{speculation} {number} {words}", max_tokens=1)))
        after = speed(lambda: time.sleep(1))
    wait_until_free(server)
    return before, during, after


def drain(connection):
    try:
        while connection.recv(1 << 16):
            pass
    except OSError:
        pass


def wait_until_free(server):
    while server.metric("requests_running") > 0:
        pass


def leaving(server, in_prompt, number):
    text = " ".join(f"word{(number * 7 + i) % 977}" for i in range(1300)) if in_prompt else f"Tell a story {number}."
    connection = server.ask(f"{number} {text}", max_tokens=3000, temperature=0.8, stream=True,
                            logit_bias=server.endless)
    while server.metric("requests_prefilling" if in_prompt else "requests_running") < 1:
        pass
    time.sleep(0.05)
    start = time.perf_counter()
    connection.close()
    wait_until_free(server)
    return (time.perf_counter() - start) * 1e3


def main():
    parts = sys.argv[2:] or ["overhead", "pace", "leaving"]
    if len(sys.argv) < 2 or not set(parts) <= {"overhead", "pace", "leaving"}:
        sys.exit(__doc__)
    server = Server(sys.argv[1])
    print(f"{server.props['model']} at {server.url}")
    for speculation in ("off", "auto"):
        if "overhead" in parts:
            overhead(server, speculation)
        for number in range(3 if "pace" in parts else 0):
            before, during, after = pace(server, speculation, number)
            print(f"pace, speculation {speculation:4} {before:.0f} tokens/s, during a prompt {during:.0f}, then "
                  f"{after:.0f}: {2 * during / (before + after):.2f}", flush=True)
    for name, in_prompt in (("in its prompt", True), ("while decoding", False)):
        if "leaving" in parts:
            took = sorted(leaving(server, in_prompt, i) for i in range(10))
            print(f"leaving {name}: {took[5]:.1f} ms (at most {took[-1]:.1f})", flush=True)


main()
