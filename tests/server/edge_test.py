#!/usr/bin/env python3
"""The built server against hostile clients over raw sockets: they cannot crash, stall, exhaust, or
deceive it. Standard library only.

    edge_test.py PROGRAM [CLASS]
"""
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
from calibration_folder import calibration_folder  # noqa: E402
from free_port import free_port  # noqa: E402
from http_test import WithServer  # noqa: E402
from raw_client import Client  # noqa: E402
from server_process import START_S, STOP_S, Server, program  # noqa: E402

CHUNKED = b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
ONE_CHUNK = b'c\r\n{"text":"a"}\r\n0\r\n'
LIMIT = 64 << 10  # of a head, a chunk's extension, or all trailers


class Hostile(WithServer):
    def status_of(self, data):
        """The answer to `data`, and whether the connection was closed after it."""
        with self.connect() as client:
            client.send(data)
            status, _, _ = client.answer()
            return status, client.closed()

    def assert_alive(self):
        with self.connect() as client:
            client.get("/health")
            self.assertEqual(client.answer()[0], 200)


class Framing(Hostile):
    flags = ("--idle-timeout", "1")

    def test_trailers_are_read_and_bounded_as_heads_are(self):
        with self.connect() as client:
            client.send(CHUNKED + ONE_CHUNK + b"X-Sum: 1\r\nX-Other: 2\r\n\r\n")
            self.assertEqual(client.answer()[0], 200)
            client.get("/health")
            self.assertEqual(client.answer()[0], 200, "the trailers were taken whole")
        for size in (65_533, 65_534, 70_000, 4 << 20):  # 65,534 ended the process
            status, closed = self.status_of(CHUNKED + ONE_CHUNK + b"a:" + b"x" * size + b"\r\n\r\n")
            self.assertEqual((status, closed), (431, True), size)
        status, closed = self.status_of(CHUNKED + ONE_CHUNK + b"a:\r\n" * 1_000_000 + b"\r\n")
        self.assertEqual((status, closed), (431, True), "many tiny ones")
        self.assert_alive()

    def test_a_chunks_extension_is_bounded(self):
        status, closed = self.status_of(CHUNKED + b"1;" + b"x" * (LIMIT + 10))
        self.assertEqual((status, closed), (431, True))
        self.assert_alive()

    def test_a_body_has_one_end_or_the_connection_has(self):
        inner = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        head = b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\n"
        for fields, status in ((b"Transfer-Encoding: chunked, identity\r\n", 400),
                               (b"Transfer-Encoding: identity\r\n", 400),
                               (b"Transfer-Encoding: gzip\r\n", 400),
                               (b"Transfer-Encoding: gzip, chunked\r\n", 501),
                               (b"Transfer-Encoding: identity, chunked\r\n", 501),
                               (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
                               (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
                               (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
                               (b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n", 400),
                               (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
                               (b"Content-Length: 5, 5\r\n", 400),
                               (b"Content-Length: 5\r\nContent-Length: 5\r\n", 400)):
            with self.connect() as client:
                client.send(head + fields + b"\r\n" + inner)
                self.assertEqual(client.answer()[0], status, fields)
                self.assertEqual(client.rest(), b"", "the body was not taken for a request")
        status, closed = self.status_of(head.replace(b"HTTP/1.1", b"HTTP/1.0") +
                                        b"Transfer-Encoding: chunked\r\n\r\n" + ONE_CHUNK + b"\r\n")
        self.assertEqual((status, closed), (400, True))


class Heads(Hostile):
    flags = ("--allow-host", "chat.example", "--allow-host", "198.51.100.9")

    def host(self, *fields, version="1.1", path="/health"):
        lines = [f"GET {path} HTTP/{version}", *fields]
        with self.connect() as client:
            client.send("\r\n".join(lines).encode() + b"\r\n\r\n")
            return client.answer()[0]

    def test_host_names_this_machine_or_what_is_allowed(self):
        for good in ("localhost", "localhost:1", "127.0.0.1:80", "[::1]:80", "chat.example", "Chat.Example:443",
                     "198.51.100.9"):
            self.assertEqual(self.host(f"Host: {good}"), 200, good)
        for bad in ("evil.example", "localhost.evil.example", "198.51.100.8", "chat.example.evil", "0x7f.1"):
            self.assertEqual(self.host(f"Host: {bad}"), 403, bad)
            self.assertEqual(self.host(f"Host: {bad}", path="/"), 403, bad)
        for malformed in ("", "a b", "localhost:x", "localhost/", "user@localhost", "localhost:80@evil.example"):
            self.assertEqual(self.host(f"Host: {malformed}"), 400, malformed)

    def test_host_is_given_once(self):
        self.assertEqual(self.host(), 400)
        self.assertEqual(self.host("Host: localhost", "Host: localhost"), 400)
        self.assertEqual(self.host("Host: localhost", "host: evil.example"), 400)
        self.assertEqual(self.host(version="1.0"), 200)

    def test_an_absolute_target_is_its_path_and_its_host_counts(self):
        def status(target, host="localhost", version="1.1"):
            with self.connect() as client:
                fields = f"Host: {host}\r\n" if host else ""
                client.send(f"GET {target} HTTP/{version}\r\n{fields}\r\n".encode())
                return client.answer()[0]
        self.assertEqual(status("http://localhost/health"), 200)
        self.assertEqual(status("HTTP://127.0.0.1:80/health?x=1"), 200)
        self.assertEqual(status("http://localhost"), 200, "the page")
        self.assertEqual(status("http://localhost/health", host="evil.example"), 200, "Host does not count")
        self.assertEqual(status("http://evil.example/health"), 403)
        self.assertEqual(status("http://evil.example/health", host="", version="1.0"), 403)
        self.assertEqual(status("http://user@localhost/health"), 400)
        self.assertEqual(status("ftp://localhost/health"), 404)

    def test_origins_are_read_whole(self):
        for bad in ("http://localhost:80@evil.example", "http://localhost.evil.example", "https://evil.example",
                    "HTTP://evil.example", "null", "http://localhost/x"):
            self.assertEqual(self.host("Host: localhost", f"Origin: {bad}"), 403, bad)
        self.assertEqual(self.host("Host: localhost", "Origin: http://localhost:3000"), 200)
        self.assertEqual(self.host("Host: chat.example", "Origin: https://chat.example"), 200, "its own page")
        self.assertEqual(self.host("Host: localhost", "Origin: null", "Origin: http://localhost"), 400)

    def test_what_may_be_allowed_is_checked_at_start(self):
        for bad in ("https://example.org", "example.org:443", ""):
            with self.assertRaisesRegex(RuntimeError, "--allow-host"):
                Server("--allow-host", bad).start()


class Labels(Hostile):
    flags = ("--api-key", "secret", "--quiet")

    def page(self):
        with self.connect() as client:
            client.get("/metrics", ["x-api-key: secret"])
            return client.answer()[2]

    def test_no_path_makes_a_series(self):
        with self.connect() as client:
            for i in range(1000):
                for before in ("/v1/responses/", "/v1/models/", "/v1/chat/completions/", "/"):
                    client.get(f"{before}{i}%ff%0a%22", method="HEAD")
                    self.assertEqual(client.answer(has_body=False)[0], 401)
        self.page()  # counts itself, for the next one
        page = self.page().decode()  # is UTF-8
        series = [line for line in page.splitlines() if line.startswith("foretoken_http_answers_total{")]
        self.assertEqual(len(series), 4, series)
        self.assertIn('foretoken_http_answers_total{route="/v1/responses/{id}",status="401"} 1000', series)
        self.assertLess(len(page), 64 << 10)


class Bodies(Hostile):
    flags = ("--api-key", "secret")
    KEY = "x-api-key: secret"

    def resident_mb(self):
        with open(f"/proc/{self.server.process.pid}/statm", encoding="ascii") as pages:
            return int(pages.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)

    def test_a_head_is_judged_before_its_body_is_sent(self):
        for path, fields, status in (("/v1/tokenize", [], 401), ("/v1/tokenize", ["Host: evil.example"], 403),
                                     ("/nothing", [self.KEY], 404), ("/health", [self.KEY], 405),
                                     ("/v1/models/x", [self.KEY], 405)):
            host = [] if any(field.startswith("Host") for field in fields) else ["Host: localhost"]
            for length in ("Content-Length: 1000000", "Transfer-Encoding: chunked"):
                with self.connect() as client:
                    client.send("\r\n".join([f"POST {path} HTTP/1.1", *host, *fields, length]).encode() + b"\r\n\r\n")
                    self.assertEqual(client.answer()[0], status, (path, length))
                    client.socket.shutdown(socket.SHUT_WR)
                    self.assertTrue(client.closed(), path)

    def test_a_request_without_a_key_is_not_told_to_go_on(self):
        with self.connect() as client:
            client.send(b"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                        b"Content-Length: 5\r\n\r\n")
            self.assertEqual(client.head()[0], 401)

    def test_a_refusal_is_read_by_a_client_that_sends_its_body_first(self):
        with self.connect() as client:
            client.post("/v1/tokenize", b"x" * (8 << 20))
            self.assertEqual(client.answer()[0], 401)

    def test_bodies_in_flight_have_a_bound_together(self):
        before = self.resident_mb()
        head = (f"POST /v1/tokenize HTTP/1.1\r\nHost: localhost\r\n{self.KEY}\r\n"
                f"Content-Length: {32 << 20}\r\n\r\n").encode()
        almost = b"x" * ((32 << 20) - 1)
        clients = []
        try:
            refused = 0
            for _ in range(12):  # 8 of them fill the bound
                client = self.connect()
                clients.append(client)
                client.send(head)
                try:
                    client.send(almost)
                except ConnectionError:
                    pass
                client.socket.settimeout(0.5)
                try:
                    status, fields, _ = client.answer()
                    self.assertEqual(status, 503)
                    self.assertEqual(fields["retry-after"], "1")
                    refused += 1
                except TimeoutError:
                    pass
            self.assertGreaterEqual(refused, 4)
            if "SANITIZED_TESTS" not in os.environ:
                self.assertLess(self.resident_mb() - before, 300)
            self.assert_alive()
        finally:
            for client in clients:
                client.socket.close()

        def taken():
            # Too long for the context, but there is room to read it.
            return self.ask("/v1/tokenize", {"text": "a" * (1 << 20)}, [self.KEY])[0] == 400

        self.assertTrue(self.eventually(taken), "what has left gives its share back")


class Log(unittest.TestCase):
    def served(self, errors, *arguments):
        process = subprocess.Popen([program(), "serve", "--port", "0", "--json", *arguments],
                                   stdout=subprocess.PIPE, stderr=errors, text=True,
                                   env={"FORETOKEN_CALIBRATION": calibration_folder(program()), **os.environ})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdout.close)
        return process, json.loads(process.stdout.readline())["url"]

    def test_a_stderr_that_nobody_reads_stops_nothing(self):
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        process, url = self.served(write, "--log-json")
        os.close(write)
        with Client(url) as client:
            for i in range(2000):  # 64 kB fill the pipe
                client.get(f"/v1/models/{i}" + "x" * 100)
                self.assertEqual(client.answer()[0], 404)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(STOP_S), 0)

    def test_what_a_client_chooses_writes_no_line_and_no_control(self):
        for flags in ((), ("--log-json",)):
            with self.subTest(flags):
                read, write = os.pipe()
                process, url = self.served(write, *flags)
                os.close(write)
                with Client(url) as client:
                    client.get("/a%0aforged%1b[2J%ff%c2%9b", ["X-Request-Id: mine"])
                    self.assertEqual(client.answer()[0], 404)
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(STOP_S), 0)
                with os.fdopen(read, "rb") as log:
                    text = log.read().decode()  # is UTF-8
                self.assertIn("forged", text)
                self.assertFalse([line for line in text.splitlines() if line.startswith("forged")], text)
                self.assertFalse([c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], text)


class Streams(unittest.TestCase):
    def test_closed_standard_streams_do_not_become_sockets(self):
        port = free_port()
        shell = f'exec "$0" serve --port {port} <&- >&- 2>&-'
        process = subprocess.Popen(["bash", "-c", shell, program()],
                                   env={"FORETOKEN_CALIBRATION": calibration_folder(program()), **os.environ})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        end = time.monotonic() + START_S
        while True:
            try:
                with Client(f"http://127.0.0.1:{port}") as client:
                    client.get("/health")
                    if client.answer()[0] == 200:
                        break
            except ConnectionRefusedError:
                pass
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), end)
            time.sleep(0.1)
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null", fd)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(STOP_S), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
