#!/usr/bin/env python3
"""The built server over raw sockets: valid and invalid behaviour of HTTP clients. Standard library only.

    http_test.py PROGRAM [CLASS]
"""
import concurrent.futures
import json
import os
import re
import socket
import sys
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client, chat, frames, text_of  # noqa: E402
from server_process import Server  # noqa: E402
from short_model import short_model  # noqa: E402

LONG = os.environ.get("FORETOKEN_FULL") == "1"
MANY_STREAMS = 1000 if LONG else 200


class WithServer(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags).start()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.log())

    def connect(self, **options):
        return Client(self.server.url, **options)

    def ask(self, path, body, headers=()):
        with self.connect() as client:
            client.post(path, body, headers)
            return client.answer()

    def metric(self, name):
        with urllib.request.urlopen(self.server.url + "/metrics") as reply:
            for line in reply.read().decode().splitlines():
                if line.startswith(name + " "):
                    return float(line.split()[1])
        raise KeyError(name)

    def eventually(self, holds, seconds=240):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if holds():
                return True
            time.sleep(0.02)
        return False


NEVER_ENDING = {"8178": -100, "8180": -100}


class Http(WithServer):
    flags = ("--head-timeout", "1", "--idle-timeout", "2")

    def test_the_picker_of_a_gateway_finds_its_gauges(self):
        """Gateway API inference extension, proposal 003: gauges, one sample each, a share between 0 and 1."""
        with urllib.request.urlopen(self.server.url + "/metrics") as reply:
            lines = reply.read().decode().splitlines()
        samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        names = ("vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:kv_cache_usage_perc",
                 "vllm:gpu_cache_usage_perc")
        for name in names:
            self.assertIn(f"# TYPE {name} gauge", lines)
            self.assertGreaterEqual(float(samples[name]), 0)
        with self.connect() as client:
            client.post("/v1/chat/completions", chat(max_tokens=3000, stream=True, logit_bias=NEVER_ENDING))
            client.head()
            self.assertTrue(self.eventually(lambda: self.metric(names[1]) == 1))
            self.assertEqual(self.metric(names[2]), 1 / self.metric("foretoken_slots"))
        self.assertTrue(self.eventually(lambda: self.metric(names[2]) == 0))

    def test_one_connection_serves_many_requests(self):
        with self.connect() as client:
            for path in ("/health", "/v1/models", "/props", "/v1/cache", "/metrics"):
                client.get(path)
                status, _, body = client.answer()
                self.assertEqual(status, 200, path)
                if path == "/props":
                    self.assertEqual(json.loads(body)["draft_vocabulary"], 8192)
            client.post("/v1/chat/completions", chat(max_tokens=3))
            self.assertEqual(client.answer()[0], 200)
            client.post("/v1/chat/completions", chat(max_tokens=3, stream=True))
            self.assertEqual(client.answer()[0], 200)
            client.get("/health")
            self.assertEqual(client.answer()[0], 200)

    def test_pipelined_requests_are_answered_in_order(self):
        with self.connect() as client:
            client.post("/v1/chat/completions", chat(max_tokens=4, stream=True))
            client.get("/health")
            client.get("/v1/models")
            self.assertIn(b"[DONE]", client.answer()[2])
            self.assertEqual(json.loads(client.answer()[2])["status"], "ready")
            self.assertIn(b"qwen3.5-tiny", client.answer()[2])

    def test_a_head_comes_in_pieces(self):
        with self.connect() as client:
            for byte in b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n":
                client.send(bytes([byte]))
            self.assertEqual(client.answer()[0], 200)

    def test_head_has_no_body_and_options_names_methods(self):
        with self.connect() as client:
            client.get("/v1/models", method="HEAD")
            status, fields, _ = client.answer(has_body=False)
            self.assertEqual(status, 200)
            self.assertGreater(int(fields["content-length"]), 10)
            client.get("/v1/chat/completions", ["Origin: http://localhost:3000"], method="OPTIONS")
            status, fields, _ = client.answer()
            self.assertEqual(status, 204)
            self.assertEqual(fields["access-control-allow-origin"], "http://localhost:3000")

    def test_a_foreign_page_is_refused(self):
        self.assertEqual(self.ask("/v1/chat/completions", chat(), ["Origin: https://evil.example"])[0], 403)

    def test_ids_are_echoed_and_made_up_where_unfit(self):
        with self.connect() as client:
            client.get("/health", ["X-Request-Id: mine-1"])
            self.assertEqual(client.answer()[1]["x-request-id"], "mine-1")
            client.get("/health", ["X-Request-Id: " + "x" * 200])
            self.assertTrue(client.answer()[1]["x-request-id"].startswith("req_"))

    def test_a_slow_head_ends_with_408(self):
        with self.connect() as client:
            client.send(b"GET /health HT")
            start = time.monotonic()
            self.assertEqual(client.answer()[0], 408)
            self.assertTrue(client.closed())
            self.assertLess(time.monotonic() - start, 30)

    def test_an_idle_connection_is_closed(self):
        with self.connect() as client:
            client.get("/health")
            client.answer()
            self.assertTrue(client.closed())

    def test_nonsense_is_answered_and_closed(self):
        for data in (b"\x00\x01\x02\r\n\r\n", b"HELLO\r\n\r\n", b"GET /health HTTP/9.9\r\n\r\n",
                     b"GET /health HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
                     b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                     b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
                     b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                     b"zz\r\n"):
            with self.connect() as client:
                client.send(data)
                status, _, body = client.answer()
                self.assertEqual(status, 400, data)
                self.assertIn("message", json.loads(body)["error"])
                self.assertTrue(client.closed(), data)

    def test_limits_of_head_and_body_hold_at_one_more(self):
        with self.connect() as client:
            client.get("/health", ["X-Filler: " + "x" * 70000])
            self.assertEqual(client.answer()[0], 431)
        limit = 32 << 20
        with self.connect() as client:
            client.send(f"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\n"
                        f"Content-Length: {limit + 1}\r\n\r\n".encode())
            status, _, body = client.answer()
            self.assertEqual(status, 413)
            self.assertIn(str(limit), json.loads(body)["error"]["message"])
        with self.connect(timeout=300) as client:  # a sanitized server reads it in a minute
            client.post("/v1/tokenize", b'{"text": "' + b"x" * (limit - 12) + b'"}')
            status, _, body = client.answer()  # read whole, and longer than the context
            self.assertEqual((status, json.loads(body)["error"]["code"]), (400, "context_length_exceeded"))

    def test_a_chunked_body_is_read(self):
        body = json.dumps(chat(max_tokens=2)).encode()
        with self.connect() as client:
            client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(f"{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
            self.assertEqual(client.answer()[0], 200)

    def test_a_client_may_wait_for_100_continue(self):
        body = json.dumps(chat(max_tokens=2)).encode()
        with self.connect() as client:
            client.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                        f"Content-Length: {len(body)}\r\n\r\n".encode())
            self.assertEqual(client.head()[0], 100)
            client.send(body)
            self.assertEqual(client.answer()[0], 200)

    def test_http_1_0_gets_a_stream_without_chunks(self):
        with self.connect() as client:
            client.post("/v1/chat/completions", chat(max_tokens=4, stream=True), version="1.0")
            status, fields = client.head()
            self.assertEqual(status, 200)
            self.assertNotIn("transfer-encoding", fields)
            client.socket.settimeout(240)
            body = client.received
            while piece := client.socket.recv(65536):
                body += piece
            self.assertEqual(len(text_of(frames(body))) > 0, True)

    def test_bad_bodies_name_what_is_wrong(self):
        for body, word in ((b"", "empty"), (b"{", "byte"), (b"[]", "object"), (b'"x"', "object"),
                           (b"\xff\xfe", "UTF-8"), (b'{"messages": [{"role": "user", "content": "\xff"}]}', "UTF-8"),
                           (b"[" * 100000, "deep"), (b'{"a":' * 200 + b"1" + b"}" * 200, "deep"),
                           (b'{"messages": 5}', "messages"), (b'{"messages": []}', "messages"),
                           (b'{"messages": [{"role": "user", "content": 5}]}', "messages[0].content"),
                           (json.dumps(chat(temperature=5)).encode(), "temperature"),
                           (json.dumps(chat(temperature="x")).encode(), "temperature"),
                           (json.dumps(chat(max_tokens=0)).encode(), "max_tokens"),
                           (json.dumps(chat(n=17)).encode(), "n"),
                           (json.dumps(chat(top_logprobs=21, logprobs=True)).encode(), "top_logprobs"),
                           (json.dumps(chat(stop=[""])).encode(), "stop"),
                           (json.dumps(chat(stop=["x"] * 65)).encode(), "stop"),
                           (json.dumps(chat(logit_bias={"x": 1})).encode(), "logit_bias"),
                           (json.dumps(chat(logit_bias={"99999999": 1})).encode(), "logit_bias"),
                           (json.dumps(chat(seed=1.5)).encode(), "seed"),
                           (json.dumps(chat(tools=[{"type": "function"}])).encode(), "tools[0]"),
                           (json.dumps(chat(tool_choice="required")).encode(), "tool_choice"),
                           (json.dumps(chat(speculation="maybe")).encode(), "speculation")):
            status, fields, answer = self.ask("/v1/chat/completions", body)
            self.assertEqual(status, 400, body[:80])
            self.assertIn(word, json.loads(answer)["error"]["message"], body[:80])
            self.assertEqual(fields["x-should-retry"], "false")

    def test_unknown_fields_and_models(self):
        self.assertEqual(self.ask("/v1/chat/completions", chat(max_tokens=1, frobnicate={"a": 1}))[0], 200)
        status, _, body = self.ask("/v1/chat/completions", chat(model="gpt-none"))
        self.assertEqual(status, 404)
        self.assertEqual(json.loads(body)["error"]["code"], "model_not_found")

    def test_a_prompt_beyond_the_context_is_400_with_both_numbers(self):
        status, _, body = self.ask("/v1/chat/completions", chat("word " * 9000))
        error = json.loads(body)["error"]
        self.assertEqual((status, error["code"]), (400, "context_length_exceeded"))
        self.assertRegex(error["message"], r"\d+ tokens > 4095 maximum")

    def test_whole_and_streamed_answers_agree(self):
        body = chat("Write a haiku about rain.", max_tokens=60, temperature=0.8, seed=7)
        whole = json.loads(self.ask("/v1/chat/completions", body)[2])
        stream = frames(self.ask("/v1/chat/completions", {**body, "stream": True})[2])
        self.assertEqual(text_of(stream), whole["choices"][0]["message"]["content"])
        self.assertEqual(stream[-1]["choices"][0]["finish_reason"], whole["choices"][0]["finish_reason"])


class Keys(WithServer):
    flags = ("--api-key", "one", "--api-key", "two", "--alias", "other-name", "--cors", "https://chat.example")

    def test_a_key_is_needed_but_for_health_and_the_page(self):
        with self.connect() as client:
            client.get("/v1/models")
            self.assertEqual(client.answer()[0], 401)
            client.get("/v1/models", ["Authorization: Bearer two"])
            self.assertEqual(client.answer()[0], 200)
            client.get("/v1/models/other-name", ["X-Api-Key: one"])
            self.assertEqual(client.answer()[0], 200)
            client.get("/v1/models", ["X-Api-Key: three"])
            self.assertEqual(client.answer()[0], 401)
            client.get("/health")
            self.assertEqual(client.answer()[0], 200)
            client.get("/")
            self.assertEqual(client.answer()[0], 200)

    def test_a_listed_origin_may_read(self):
        with self.connect() as client:
            client.get("/health", ["Origin: https://chat.example"])
            self.assertEqual(client.answer()[1]["access-control-allow-origin"], "https://chat.example")


def words_of(answer):
    """Its status line and its text, independent of the sizes of the pieces."""
    texts = re.findall(rb'"(?:content|text|delta|message)":"([^"]*)"', answer)
    return answer.split(b"\r\n")[0], b"".join(texts)


class Leaving(WithServer):
    flags = ("--slots", "2", "--queue", "3", "--context", "16384")

    def running(self):
        return self.metric("foretoken_requests_running") + self.metric("foretoken_requests_waiting")

    def test_a_client_that_leaves_while_decoding_frees_its_slot(self):
        with self.connect() as client:
            client.post("/v1/chat/completions", chat("Tell a story.", max_tokens=8000, stream=True,
                                                     logit_bias={"8178": -100, "8180": -100}))
            client.until(b"data: ")
            self.assertTrue(self.eventually(lambda: self.running() == 1))
        self.assertTrue(self.eventually(lambda: self.running() == 0))
        self.assertTrue(self.eventually(lambda: any(r["status"] == 499 for r in self.server.requests())))

    def test_a_client_that_leaves_in_its_prompt_frees_its_slot(self):
        with self.connect() as client:
            client.post("/v1/chat/completions", chat("word " * 15000, max_tokens=5))
            self.assertTrue(self.eventually(lambda: self.metric("foretoken_requests_prefilling") == 1))
        self.assertTrue(self.eventually(lambda: self.running() == 0))
        left = "0 tokens, client left"
        self.assertTrue(self.eventually(lambda: any(r.get("note") == left for r in self.server.requests())))

    def test_a_client_that_closes_its_sending_side_gets_its_answer(self):
        body = chat("Count to ten.", max_tokens=20)
        for path, asked in (("/v1/chat/completions", body), ("/v1/chat/completions", {**body, "stream": True}),
                            ("/v1/messages", body), ("/v1/messages", {**body, "stream": True}),
                            ("/v1/responses", {"input": "Count.", "max_output_tokens": 20, "temperature": 0}),
                            ("/v1/responses", {"input": "Count.", "max_output_tokens": 20, "temperature": 0,
                                                "stream": True}),
                            ("/v1/tokenize", {"text": "a"}), ("/v1/responses", {"input": "a", "top_p": 7})):
            for version in ("1.1", "1.0"):
                answers = []
                for closes in (False, True):
                    with self.subTest(path=path, asked=asked, closes=closes), self.connect() as client:
                        client.post(path, asked, ["Connection: close"], version)
                        if closes:
                            client.socket.shutdown(socket.SHUT_WR)
                        answers.append(words_of(client.rest()))
                self.assertIn(b" 400 " if "top_p" in asked else b" 200 ", answers[0][0])
                self.assertEqual(*answers)

    def test_one_that_closes_it_during_a_long_prompt_is_answered(self):
        for stream in (False, True):
            with self.connect(timeout=120) as client:
                words = ("more " if stream else "less ") * (9000 if LONG else 600)
                client.post("/v1/chat/completions", chat(words, max_tokens=2, stream=stream))
                self.assertTrue(self.eventually(lambda: self.metric("foretoken_requests_prefilling") == 1))
                client.socket.shutdown(socket.SHUT_WR)
                status, _, text = client.answer()
                self.assertEqual(status, 200)
                self.assertIn(b'"finish_reason":"length"', text)

    def test_one_that_closes_it_and_leaves_later_frees_its_slot(self):
        for stream in (False, True):
            with self.connect() as client:
                client.post("/v1/chat/completions", chat("Tell.", max_tokens=8000, stream=stream,
                                                         logit_bias=NEVER_ENDING))
                self.assertTrue(self.eventually(lambda: self.running() == 1))
                client.socket.shutdown(socket.SHUT_WR)
                client.socket.recv(1)
            self.assertTrue(self.eventually(lambda: self.running() == 0))

    def test_a_full_queue_is_429_with_retry_after(self):
        forever = chat("Tell a story.", max_tokens=8000, stream=True, logit_bias={"8178": -100, "8180": -100})
        clients = []
        try:
            for i in range(5):
                clients.append(self.connect())
                clients[-1].post("/v1/chat/completions", forever)
                self.assertTrue(self.eventually(lambda count=i + 1: self.running() == count), self.server.log())
            status, fields, body = self.ask("/v1/chat/completions", chat(max_tokens=1))
            self.assertEqual(status, 429)
            self.assertIn("retry-after", fields)
            self.assertEqual(json.loads(body)["error"]["type"], "rate_limit_error")
        finally:
            for client in clients:
                client.socket.close()
        self.assertTrue(self.eventually(lambda: self.running() == 0))

    def test_an_answer_can_be_cancelled_by_its_id(self):
        with self.connect() as client:
            client.post("/v1/chat/completions", chat("Tell a story.", max_tokens=8000, stream=True,
                                                     logit_bias={"8178": -100, "8180": -100}))
            first = client.until(b'"content":""').decode()
            name = re.search(r'"id":"(chatcmpl-[^"]+)"', first).group(1)
            status, _, body = self.ask(f"/v1/chat/completions/{name}/cancel", {})
            self.assertEqual((status, json.loads(body)["cancelled"]), (200, True))
            self.assertTrue(self.eventually(lambda: self.running() == 0))
        self.assertEqual(self.ask(f"/v1/chat/completions/{name}/cancel", {})[0], 404)

    def test_a_response_can_be_cancelled_by_its_id(self):
        with self.connect() as client:
            client.post("/v1/responses", {"input": "Tell a story.", "max_output_tokens": 8000, "stream": True,
                                          "logit_bias": {"8178": -100, "8180": -100}})
            name = re.search(r'"id":"(resp_[^"]+)"', client.until(b"output_text.delta").decode()).group(1)
            status, _, body = self.ask(f"/v1/responses/{name}/cancel", {})
            self.assertEqual((status, json.loads(body)["status"]), (200, "cancelled"))
            self.assertTrue(self.eventually(lambda: self.running() == 0))
        status, _, body = self.ask(f"/v1/responses/{name}/cancel", {})
        self.assertEqual(status, 404)
        self.assertIn(f'no answer with the id \\"{name}\\"', body.decode())

    def test_a_slow_reader_pauses_its_own_answer_only_and_misses_nothing(self):
        body = chat("Tell a story.", max_tokens=1500, stream=True, stream_speculation=True, logprobs=True,
                    top_logprobs=20, logit_bias={"8178": -100, "8180": -100})
        with self.connect() as slow:
            slow.post("/v1/chat/completions", body)
            self.assertTrue(self.eventually(lambda: self.metric("foretoken_requests_paused") == 1, 60))
            self.assertEqual(self.ask("/v1/chat/completions", chat(max_tokens=20))[0], 200)
            late = frames(slow.answer()[2])
        alone = frames(self.ask("/v1/chat/completions", body)[2])
        self.assertEqual(text_of(late), text_of(alone))
        tokens = sum(len(c["logprobs"]["content"]) for f in late for c in f["choices"] if c["logprobs"])
        self.assertEqual(tokens, 1500)


class Many(WithServer):
    flags = ("--queue", "2000", "--model", short_model())

    def memory_mb(self):
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024

    def threads(self):
        return len(os.listdir(f"/proc/{self.server.process.pid}/task"))

    def test_many_streams_at_once_lose_nothing(self):
        body = chat("Count to ten.", max_tokens=8, stream=True)
        alone = text_of(frames(self.ask("/v1/chat/completions", body)[2]))
        before, threads = self.memory_mb(), self.threads()
        clients = []
        for _ in range(MANY_STREAMS):
            clients.append(self.connect(timeout=300))
            clients[-1].post("/v1/chat/completions", body)
        top = 0
        for client in clients:
            self.assertEqual(text_of(frames(client.answer()[2])), alone)
            top = max(top, self.memory_mb())
        self.assertEqual(self.threads(), threads, "no thread a connection")
        if "SANITIZED_TESTS" not in os.environ:
            self.assertLess(top - before, 60, "MB above the model")
        for client in clients:
            client.socket.close()

    def test_batches_equal_lone_runs(self):
        bodies = [chat(f"Write one sentence about the number {i}.", max_tokens=24, temperature=0.7 * (i % 3),
                       seed=i, presence_penalty=0.5 * (i % 2), n=1 + i % 2) for i in range(24)]
        alone = [json.loads(self.ask("/v1/chat/completions", body)[2])["choices"] for body in bodies]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(lambda body: self.ask("/v1/chat/completions", body)[2], bodies))
        together = [json.loads(answer)["choices"] for answer in answers]
        self.assertEqual(alone, together)


class Stopping(unittest.TestCase):
    def test_sigterm_lets_answers_end_and_takes_no_more(self):
        server = Server().start()
        with Client(server.url) as client:
            client.post("/v1/chat/completions", chat("Tell a story.", max_tokens=200, stream=True,
                                                     logit_bias={"8178": -100, "8180": -100}))
            client.until(b"data: ")
            stop = threading.Thread(target=lambda: setattr(self, "code", server.stop()))
            stop.start()
            client.until(b"[DONE]")
            stop.join()
        self.assertEqual(self.code, 0)

    def test_sigterm_ends_what_takes_too_long(self):
        server = Server("--grace", "0").start()
        with Client(server.url) as client:
            client.post("/v1/chat/completions", chat("Tell a story.", max_tokens=4000, stream=True,
                                                     logit_bias={"8178": -100, "8180": -100}))
            client.until(b"data: ")
            self.assertEqual(server.stop(), 0)
            self.assertNotIn(b'"finish_reason":"length"', client.rest())

    def test_a_taken_port_is_a_clear_error(self):
        server = Server().start()
        try:
            port = server.url.rsplit(":", 1)[1]
            with self.assertRaisesRegex(RuntimeError, "used by another program"):
                Server("--port", port).start()
        finally:
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
