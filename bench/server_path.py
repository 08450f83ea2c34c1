#!/usr/bin/env python3
"""What the server's path costs beside the engine, measured at a running server. Standard library only.

    server_path.py URL              foretoken serve --threads 2 --context 16384, clients on other processors

overhead  a client's times beside the engine's own: its wall time less the engine's prompt and decode times, of
          streamed answers and of answers of one token; of the streamed ones also the time until the first token
          less the engine's prompt time, and what follows the first token over the engine's decode time
pace      tokens/s of a running answer while another client's prompt of some 10,000 tokens is read, over its mean
          pace before and after
leaving   milliseconds from a client's leaving, in its prompt and while decoding, until its slot is free
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
    """All of an answer, and when the first piece came that holds a token."""
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


def overhead(server, speculation, stream, tokens, requests=60):
    """Medians: ms beside the engine, their share of the wall time, and of streams ms before the first token beside
    the engine's prompt time and the share by which what follows is longer than the engine's decoding."""
    found = []
    for i in range(requests):
        start = time.perf_counter()
        answer, first = read_all(server.ask(
            f"({speculation} {stream} {i}) {PROMPTS[i % 4]}", temperature=0, stream=stream, max_tokens=tokens,
            speculation=speculation, logit_bias=server.endless,
            **({"stream_options": {"include_usage": True}} if stream else {})))
        end = time.perf_counter()
        timings = timings_of(answer)
        prompt_ms, decode_ms, wall = timings["prompt_ms"], timings["predicted_ms"], (end - start) * 1e3
        beside = wall - prompt_ms - decode_ms
        found.append((beside, beside / wall, (first - start) * 1e3 - prompt_ms,
                      (end - first) * 1e3 / decode_ms - 1 if decode_ms > 0 else 0))
    # The second half: behind the first ones, for which memory is touched for the first time.
    return [statistics.median(values) for values in zip(*found[requests // 2:])]


def pace(server, speculation, number):
    """Of a story without an end, in tokens/s: before, during and after another's prompt."""
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
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    server = Server(sys.argv[1])
    print(f"{server.props['model']} at {server.url}")
    for speculation in ("off", "auto"):
        for name, stream, tokens in (("streamed, 200 tokens", True, 200), ("one token", False, 1)):
            beside, share, first, slower = overhead(server, speculation, stream, tokens)
            print(f"overhead, speculation {speculation:4}  {name:20} {beside:.2f} ms, {100 * share:.1f} % of the wall"
                  + (f"; {first:.2f} ms of first token, then {100 * slower:.1f} %" if stream else ""), flush=True)
        for number in range(3):
            before, during, after = pace(server, speculation, number)
            print(f"pace, speculation {speculation:4} {before:.0f} tokens/s, beside a prompt {during:.0f}, then "
                  f"{after:.0f}: {2 * during / (before + after):.2f}", flush=True)
    for name, in_prompt in (("in its prompt", True), ("while decoding", False)):
        times = sorted(leaving(server, in_prompt, i) for i in range(10))
        print(f"leaving {name}: {times[5]:.1f} ms (at most {times[-1]:.1f})", flush=True)


main()
