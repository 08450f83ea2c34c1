#!/usr/bin/env python3
"""Pictures in requests to the built server: broken files, a cache folder across a restart, web addresses.
Standard library only.

    images_test.py PROGRAM [CLASS]

Urls needs a public address of another machine: it runs in a separate network namespace, with a cable to a
second one (unshare, nsenter, ip). Where these cannot be had, the exit code is 77, which ctest counts as
skipped.
"""
import contextlib
import ctypes
import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pictures import SHAPES, SHAPES_TOKENS, data_uri, image_url, png  # noqa: E402
from raw_client import Client  # noqa: E402
from server_process import Server  # noqa: E402

# Any public addresses: only this test's namespaces have them.
PUBLIC = "93.184.215.14"  # of the other one
OWN, OWN_IPV6, OWN_RANGE = "93.184.215.15", "2606:2800:21f:cb07::15", "198.41.30.0/24"
INSIDE = "FORETOKEN_TEST_NAMESPACE"


def post(server, path, body):
    with Client(server.url, timeout=120) as client:
        client.post(path, json.dumps(body).encode())
        status, _, text = client.answer()
        return status, json.loads(text)


def chat(*parts, **more):
    return {"messages": [{"role": "user", "content": list(parts)}], "temperature": 0, "max_tokens": 24, **more}


def text(words):
    return {"type": "text", "text": words}


def said(answer):
    return answer["choices"][0]["message"]["content"]


class WithServer(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.flags).start()

    @classmethod
    def tearDownClass(cls):
        assert cls.server.stop() == 0, cls.server.log()

    def refused(self, part, contains, server=None):
        """The message of a 400 that names the part; the server answers the next request."""
        server = server or self.server
        status, answer = post(server, "/v1/chat/completions", chat(text("See:"), part))
        self.assertEqual(status, 400, answer)
        self.assertTrue(answer["error"]["param"].startswith("messages[0].content[1]"), answer)
        self.assertIn(contains, answer["error"]["message"])
        status, answer = post(server, "/v1/chat/completions", chat(text("Hello"), max_tokens=1))
        self.assertEqual(status, 200, answer)
        return answer


class Files(WithServer):
    def test_a_truncated_file_is_refused(self):
        whole = png(64, 64)
        for size in (0, 1, 8, 20, 33, 40, len(whole) // 2):
            with self.subTest(size=size):
                self.refused(image_url(whole[:size]), "")

    def test_a_file_that_lies_about_its_size_is_refused(self):
        self.refused(image_url(png(64, 64, claim=(640, 640))), "cannot be decoded")
        self.refused(image_url(png(0, 0, data=b"", claim=(64, 64))), "cannot be decoded")

    def test_a_bomb_is_refused_before_its_pixels_are_there(self):
        rows = zlib.compress(bytes(1 << 24), 9)  # 16 MiB in 16 KiB
        for claim in ((16385, 1), (1, 16385), (8192, 8192), (60000, 60000)):
            with self.subTest(claim=claim):
                self.refused(image_url(png(0, 0, data=rows, claim=claim)), "pixels")
        self.refused(image_url(png(0, 0, data=rows, claim=(2**31 - 1, 2**31 - 1))), "limit")
        # Within the limits of its header, but with rows for a thousand such pictures.
        status, _ = post(self.server, "/v1/chat/completions",
                         chat(text("See:"), image_url(png(0, 0, data=rows, claim=(64, 64))), max_tokens=1))
        self.assertIn(status, (200, 400))
        with open(f"/proc/{self.server.process.pid}/status", encoding="ascii") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
        self.assertLess(peak, 2 << 20, "KiB: a bomb was unpacked")

    def test_a_file_that_is_no_picture_and_a_large_one_are_refused(self):
        self.refused({"type": "image_url", "image_url": {"url": "data:text/plain;base64,aGVsbG8="}}, "PNG, JPEG")
        self.refused(image_url(SHAPES + bytes((20 << 20) + 1 - len(SHAPES))), "20971520")
        self.refused({"type": "image_url", "image_url": {"url": "data:image/png;base64,%%%"}}, "base64")

    def test_a_strip_within_the_limit_is_read_though_a_token_is_its_height(self):
        for size in ((1900, 10), (10, 1900), (1, 1), (199, 1)):
            status, answer = post(self.server, "/v1/chat/completions",
                                  chat(image_url(png(*size)), text("x"), max_tokens=1))
            self.assertEqual(status, 200, answer)

    def test_a_strip_and_too_many_images_are_refused(self):
        self.refused(image_url(png(2010, 10)), "200 times")
        status, answer = post(self.server, "/v1/chat/completions", chat(*[image_url(png(8, 8))] * 65))
        self.assertEqual((status, answer["error"]["param"]), (400, "messages[0].content[64]"), answer)

    def test_an_image_beyond_the_context_is_told_in_tokens(self):
        status, answer = post(self.server, "/v1/chat/completions", chat(*[image_url(png(288, 256))] * 60, text("x")))
        self.assertEqual((status, answer["error"]["code"]), (400, "context_length_exceeded"), answer)

    def test_the_modalities_are_listed(self):
        with urllib.request.urlopen(self.server.url + "/v1/models") as reply:
            self.assertEqual(json.load(reply)["data"][0]["modalities"], ["text", "image"])
        with urllib.request.urlopen(self.server.url + "/props") as reply:
            props = json.load(reply)
        self.assertEqual((props["modalities"], props["image_urls"]), (["text", "image"], False))


class Many(WithServer):
    """Several images a turn, earlier turns, with tools; every answer equals the answer of a server without a cache."""

    TOOLS = [{"type": "function", "function": {"name": "look_up", "parameters": {
        "type": "object", "properties": {"word": {"type": "string"}}}}}]

    def conversations(self):
        first = [image_url(SHAPES), text("Describe the picture.")]
        yield [{"role": "user", "content": [text("One:"), image_url(SHAPES), text("two:"), image_url(png(64, 96)),
                                            text("What differs?")]}], None
        yield [{"role": "user", "content": [image_url(png(32 * n, 64)) for n in range(2, 8)] + [text("Which?")]}], None
        yield [{"role": "user", "content": first}, {"role": "assistant", "content": "A red circle."},
               {"role": "user", "content": "And the square?"}], None
        yield [{"role": "user", "content": first}, {"role": "assistant", "content": "A red circle."},
               {"role": "user", "content": [text("And this?"), image_url(png(96, 64))]}], self.TOOLS
        call = {"id": "a", "type": "function", "function": {"name": "look_up", "arguments": '{"word": "x"}'}}
        yield [{"role": "user", "content": "Look at it."}, {"role": "assistant", "content": None, "tool_calls": [call]},
               {"role": "tool", "tool_call_id": "a", "content": [text("Here:"), image_url(SHAPES)]},
               {"role": "user", "content": "Describe the picture."}], self.TOOLS

    def test_answers_do_not_depend_on_cache_drafts_or_neighbours(self):
        bodies = []
        for messages, tools in self.conversations():
            body = {"messages": messages, "temperature": 0, "max_tokens": 20}
            bodies.append({**body, "tools": tools} if tools else body)
        with Server("--cache-mb", "0", "--slots", "1", "--drafter", "none") as alone:
            wanted = [post(alone, "/v1/chat/completions", body)[1] for body in bodies]
        for answer in wanted:
            self.assertIn("choices", answer, answer)
        found = [None] * len(bodies)

        def ask(at):
            found[at] = post(self.server, "/v1/chat/completions", bodies[at])[1]

        for _ in range(2):  # the second time from the cache
            threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(bodies))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for at, answer in enumerate(found):
                self.assertEqual(answer["choices"][0]["message"], wanted[at]["choices"][0]["message"], at)
                self.assertEqual(answer["usage"]["prompt_tokens"], wanted[at]["usage"]["prompt_tokens"], at)

    def test_another_question_about_an_image_reads_it_from_the_cache(self):
        picture = png(256, 256)
        first = post(self.server, "/v1/chat/completions", chat(image_url(picture), text("What is it?")))[1]
        second = post(self.server, "/v1/chat/completions", chat(image_url(picture), text("Which colour?")))[1]
        self.assertLess(first["usage"]["prompt_tokens_details"]["cached_tokens"], 64)
        self.assertGreaterEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], 64)
        other = post(self.server, "/v1/chat/completions", chat(image_url(png(256, 224)), text("Which colour?")))[1]
        self.assertLess(other["usage"]["prompt_tokens_details"]["cached_tokens"], 16)


class Kept(unittest.TestCase):
    """The cache folder keeps images: a restarted server does not read them again."""

    def test_an_image_survives_a_restart_and_another_one_is_not_confused_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--cache-dir", os.path.join(folder, "cache"))
            large, other = png(288, 256), png(256, 288)  # 72 tokens each: a file must save at least 64
            question, more = chat(image_url(large), text("Describe it.")), chat(image_url(large), text("Colours?"))
            with Server(*flags) as server:
                first = post(server, "/v1/chat/completions", question)[1]
            with Server(*flags) as server:
                again = post(server, "/v1/chat/completions", question)[1]
            with Server(*flags) as server:
                answers = [post(server, "/v1/chat/completions", body)[1]
                           for body in (more, chat(image_url(other), text("Describe it.")))]
            with Server("--cache-mb", "0") as server:
                fresh = [post(server, "/v1/chat/completions", body)[1]
                         for body in (question, question, more, chat(image_url(other), text("Describe it.")))]
        found = [first, again, *answers]
        self.assertEqual([said(answer) for answer in found], [said(answer) for answer in fresh])
        cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in found]
        self.assertGreaterEqual(cached[1], 72, cached)
        self.assertLess(max(cached[0], cached[3]), 8, cached)


class Web(http.server.BaseHTTPRequestHandler):
    asked = []
    release = threading.Event()

    def do_GET(self):
        self.asked.append(self.path)
        if self.path == "/slow":
            Web.release.wait(60)
            return
        if self.path.startswith("/to?"):
            self.send_response(302)
            self.send_header("Location", self.path[4:])
            self.end_headers()
            return
        size = (20 << 20) + 1 if self.path == "/large" else len(SHAPES)
        self.send_response(200 if self.path in ("/shapes.png", "/large") else 404)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        try:
            self.wfile.write(SHAPES.ljust(size, b"\0"))
        except OSError:
            pass  # a client that has read enough

    def log_message(self, *_):
        pass


class Here(Web):
    """The same for every address of the server's machine."""
    asked = []


class Here6(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6  # takes IPv4 too


def ip(*words, at=None):
    """Runs ip, in the namespace of the process `at`."""
    there = ["nsenter", "-t", str(at), "-n"] if at else []
    subprocess.run([*there, "ip", *words], check=True)


@contextlib.contextmanager
def inside(process):
    """Sockets that this thread opens meanwhile belong to the namespace of the process."""
    libc = ctypes.CDLL(None, use_errno=True)

    def enter(path):
        with open(path, "rb") as namespace:
            if libc.setns(namespace.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
                raise OSError(ctypes.get_errno(), path)
    back = f"/proc/self/task/{threading.get_native_id()}/ns/net"
    with open(back, "rb") as own:
        enter(f"/proc/{process}/ns/net")
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), 0x40000000) == 0


class Urls(WithServer):
    flags = ("--image-urls",)

    @classmethod
    def setUpClass(cls):
        cls.other = subprocess.Popen(["unshare", "--net", "sleep", "1000"])
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{cls.other.pid}/ns/net") == own:
            time.sleep(0.01)
        ip("link", "set", "lo", "up")
        ip("link", "add", "ftv0", "type", "veth", "peer", "name", "ftv1")
        ip("link", "set", "ftv1", "netns", str(cls.other.pid))
        ip("address", "add", OWN + "/24", "dev", "ftv0")
        ip("-6", "address", "add", OWN_IPV6 + "/64", "dev", "ftv0", "nodad")
        ip("link", "set", "ftv0", "up")
        ip("route", "add", "local", OWN_RANGE, "dev", "lo")
        ip("address", "add", PUBLIC + "/24", "dev", "ftv1", at=cls.other.pid)
        ip("link", "set", "ftv1", "up", at=cls.other.pid)
        cls.webs = [Here6(("::", 0), Here)]
        cls.port = cls.webs[0].server_address[1]
        with inside(cls.other.pid):
            cls.webs.append(http.server.ThreadingHTTPServer((PUBLIC, cls.port), Web))
        for web in cls.webs:
            threading.Thread(target=web.serve_forever, daemon=True).start()
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        Web.release.set()
        super().tearDownClass()
        for web in cls.webs:
            web.shutdown()
            web.server_close()
        cls.other.kill()
        cls.other.wait()

    def setUp(self):
        Web.asked.clear()
        Here.asked.clear()

    def at(self, path, host=PUBLIC):
        return f"http://{host}:{self.port}{path}"

    def named(self, path, host=PUBLIC):
        return {"type": "image_url", "image_url": {"url": self.at(path, host)}}

    def test_a_named_image_is_answered_as_the_image_itself(self):
        question = text("Describe the picture.")
        given = post(self.server, "/v1/chat/completions", chat(image_url(SHAPES), question))[1]
        for path in ("/shapes.png", "/to?/shapes.png", "/to?" + self.at("/shapes.png")):
            status, answer = post(self.server, "/v1/chat/completions", chat(self.named(path), question))
            self.assertEqual(status, 200, answer)
            self.assertEqual(said(answer), said(given))
            self.assertEqual(answer["usage"]["prompt_tokens"], given["usage"]["prompt_tokens"])
        status, answer = post(self.server, "/v1/responses", {"temperature": 0, "max_output_tokens": 24, "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": self.at("/shapes.png")},
                                         {"type": "input_text", "text": "Describe the picture."}]}]})
        self.assertEqual((status, answer["usage"]["input_tokens"]), (200, given["usage"]["prompt_tokens"]), answer)
        source = {"type": "url", "url": self.at("/shapes.png")}
        messages = [{"role": "user", "content": [{"type": "image", "source": source}, question]}]
        status, answer = post(self.server, "/v1/messages", {
            "model": self.server.facts["model"], "max_tokens": 24, "temperature": 0, "messages": messages})
        self.assertEqual((status, answer.get("content", [{}])[0].get("text")), (200, said(given)), answer)

    def test_addresses_that_are_not_public_are_never_asked(self):
        for host in ("127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0",
                     "169.254.169.254", "10.0.0.1", "192.168.0.1", "[fe80::1]", "[fd00::1]"):
            with self.subTest(host=host):
                self.refused(self.named("/shapes.png", host), "not a public address")
        self.assertEqual((Web.asked, Here.asked), ([], []))

    def test_public_addresses_of_this_machine_are_never_asked(self):
        of_range = OWN_RANGE.replace("0/24", "7")
        for host in (OWN, f"[{OWN_IPV6}]", f"[::ffff:{OWN}]", of_range):
            with self.subTest(host=host):
                with urllib.request.urlopen(self.at("/shapes.png", host)) as reply:
                    self.assertEqual(reply.status, 200, "it could be reached from here")
                Here.asked.clear()
                self.refused(self.named("/shapes.png", host), "not a public address of another machine")
                self.assertEqual(Here.asked, [])

    def test_a_redirect_to_such_an_address_is_refused(self):
        for host in ("127.0.0.1", OWN):
            self.refused(self.named("/to?" + self.at("/shapes.png", host)), "not a public address")
        self.refused(self.named("/to?file:///etc/passwd"), "not fetched")
        self.assertEqual(len(Web.asked), 3)
        self.assertEqual(Here.asked, [])

    def test_large_and_missing_files_are_refused(self):
        self.refused(self.named("/large"), "20971520")
        self.refused(self.named("/missing"), "404")

    def test_a_slow_server_elsewhere_delays_no_other_request(self):
        answers = []
        slow = threading.Thread(target=lambda: answers.append(
            post(self.server, "/v1/chat/completions", chat(self.named("/slow"), text("x")))))
        slow.start()
        status, answer = post(self.server, "/v1/chat/completions", chat(text("Hello"), max_tokens=1))
        self.assertEqual((status, answers), (200, []), answer)
        slow.join()
        self.assertEqual(answers[0][0], 400, answers)
        self.assertIn("10000 ms", answers[0][1]["error"]["message"])

    def test_it_is_off_unless_asked_for(self):
        with Server() as server:
            self.refused(self.named("/shapes.png"), "--image-urls", server)
        self.assertEqual(Web.asked, [])


def enter_namespace():
    """Runs this test again in a network namespace, where it may have public addresses."""
    if os.environ.get(INSIDE) == "1":
        return
    unshare = [shutil.which("unshare") or "false", "--user", "--map-root-user", "--net"]
    try_it = "ip link add ftv0 type veth peer name ftv1 && unshare --net true && nsenter --version"
    made = subprocess.run([*unshare, "sh", "-c", try_it], capture_output=True, check=False)
    if made.returncode != 0:
        print("images_test: skipped: no network namespaces with a cable can be made here (unshare, nsenter, ip)",
              file=sys.stderr)
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


if __name__ == "__main__":
    if "Urls" in sys.argv[2:] or len(sys.argv) == 2:
        enter_namespace()
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main()
