#!/usr/bin/env python3
"""The data of an API key, and the limits of other keys: stored responses, running answers, the prefix
cache. Standard library only.

    keys_test.py PROGRAM [CLASS]
"""
import json
import os
import re
import signal
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_test import NEVER_ENDING, WithServer  # noqa: E402
from raw_client import Client, chat  # noqa: E402
from server_process import Server, program  # noqa: E402

STORY = "Once upon a time there was a small town at the edge of a wide forest, and in it lived a baker. " * 12


def text(server, key, path, body=None, method=None):
    """Status and body."""
    headers = {"x-api-key": key} if key else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ask(server, key, path, body=None, method=None):
    """Status and JSON."""
    status, read = text(server, key, path, body, method)
    return status, json.loads(read)


class Owned(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.users, cls.admins = (os.path.join(cls.folder.name, name) for name in ("keys", "admins"))
        cls.write(cls.users, "mine\nother\n")
        cls.write(cls.admins, "chief\n")
        cls.server = Server("--api-key-file", cls.users, "--admin-key-file", cls.admins, "--slots", "2").start()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, (code, cls.server.log())
        cls.folder.cleanup()

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)

    def ask(self, key, path, body=None, method=None):
        return ask(self.server, key, path, body, method)

    def kept(self):
        status, reply = self.ask("mine", "/v1/responses", {"input": "Hello", "max_output_tokens": 4})
        self.assertEqual(status, 200, reply)
        return reply["id"]


class Responses(Owned):
    def test_a_stored_response_is_there_for_its_key_and_an_operator_alone(self):
        kept = self.kept()
        for rest in ("", "?stream=true", "?stream=true&starting_after=1", "/input_items", "/input_items?limit=1"):
            with self.subTest(rest=rest):
                path = f"/v1/responses/{kept}{rest}"
                self.assertEqual(text(self.server, "mine", path)[0], 200)
                self.assertEqual(text(self.server, "chief", path)[0], 200)
                status, foreign = text(self.server, "other", path)
                self.assertEqual(status, 404)
                unknown = text(self.server, "other", f"/v1/responses/resp_never{rest}")[1]
                self.assertEqual(foreign.replace(kept, "resp_never"), unknown)

    def test_only_its_key_continues_it(self):
        more = {"input": "And then?", "max_output_tokens": 4, "previous_response_id": self.kept()}
        unknown = {**more, "previous_response_id": "resp_never"}
        for path, stream in (("/v1/responses", False), ("/v1/responses", True),
                             ("/v1/responses/input_tokens", False)):
            status, foreign = self.ask("other", path, {**more, "stream": stream})
            self.assertEqual(status, 404)
            words = json.dumps(foreign).replace(more["previous_response_id"], "resp_never")
            self.assertEqual(words, json.dumps(self.ask("other", path, {**unknown, "stream": stream})[1]))
            self.assertEqual(text(self.server, "mine", path, {**more, "stream": stream})[0], 200)
            self.assertEqual(text(self.server, "chief", path, {**more, "stream": stream})[0], 200)

    def test_what_the_server_does_not_do_tells_nothing_of_an_id(self):
        kept = self.kept()
        for path in ("/v1/responses/compact",):
            replies = [self.ask("other", path, {"model": "x", "previous_response_id": one})
                       for one in (kept, "resp_never")]
            self.assertEqual(replies[0], replies[1])

    def test_only_its_key_and_an_operator_delete_it(self):
        first, second = self.kept(), self.kept()
        self.assertEqual(self.ask("other", f"/v1/responses/{first}", method="DELETE")[0], 404)
        self.assertEqual(self.ask("mine", f"/v1/responses/{first}", method="DELETE")[0], 200)
        self.assertEqual(self.ask("chief", f"/v1/responses/{second}", method="DELETE")[0], 200)
        self.assertEqual(self.ask("mine", f"/v1/responses/{second}")[0], 404)


class Cancels(Owned):
    def test_a_running_answer_is_cancelled_by_its_key_or_an_operator_alone(self):
        for canceller in ("mine", "chief"):
            with Client(self.server.url) as client:
                client.post("/v1/chat/completions", chat("Tell.", max_tokens=3000, stream=True,
                                                         logit_bias=NEVER_ENDING), ["x-api-key: mine"])
                client.head()
                begun = client.until(b"\n\n").decode()
                answer = re.search(r'"id":"(chatcmpl-[0-9a-f]+)"', begun).group(1)
                path = f"/v1/chat/completions/{answer}/cancel"
                self.assertEqual(self.ask("other", path, {})[0], 404)
                self.assertEqual(self.ask(canceller, path, {})[0], 200)


DIALECTS = {
    "/v1/chat/completions": lambda story: {"messages": [{"role": "user", "content": story}], "max_tokens": 1},
    "/v1/completions": lambda story: {"prompt": story, "max_tokens": 1},
    "/v1/responses": lambda story: {"input": story, "max_output_tokens": 1},
    "/v1/messages": lambda story: {"messages": [{"role": "user", "content": story}], "max_tokens": 1},
}


def told(reply):
    """The cache figures of an answer."""
    usage = reply["usage"]
    for details in ("prompt_tokens_details", "input_tokens_details"):
        if details in usage:
            return usage[details]["cached_tokens"]
    return usage["cache_read_input_tokens"]


class Cache(Owned):
    def test_no_dialect_tells_what_another_key_has_sent(self):
        for number, (path, body) in enumerate(DIALECTS.items()):
            with self.subTest(path=path):
                story = f"Tale {number}: {STORY}"
                first, again = (self.ask("mine", path, body(story))[1] for _ in range(2))
                self.assertEqual(told(first), 0)
                self.assertGreater(told(again), 50)
                other = self.ask("other", path, body(story))[1]
                self.assertEqual(told(other), 0)
                if "timings" in other:
                    self.assertEqual(other["timings"]["cached_n"], 0)
                if path == "/v1/messages":
                    self.assertEqual(other["usage"]["cache_creation_input_tokens"],
                                     first["usage"]["cache_creation_input_tokens"])
                self.assertEqual(told(self.ask("other", path, body(story))[1]), told(again), "its own by now")
                self.assertEqual(told(self.ask("chief", path, body(story))[1]), told(again))

    def test_a_stream_tells_the_same(self):
        body = DIALECTS["/v1/chat/completions"]("Streams. " + STORY)
        self.ask("mine", "/v1/chat/completions", body)
        streamed = {**body, "stream": True, "stream_options": {"include_usage": True}}
        for cached in (False, True):
            read = text(self.server, "other", "/v1/chat/completions", streamed)[1]
            self.assertEqual('"cached_tokens":0' not in read, cached, read)

    def test_where_prompts_of_two_keys_part_neither_is_told(self):
        path = "/v1/chat/completions"

        def guess(end):
            return DIALECTS[path](f"Parting. {STORY}{end * 60}")
        self.ask("mine", path, guess("My secret. "))
        for end in ("A guess. ", "Another one. "):
            self.assertEqual(told(self.ask("other", path, guess(end))[1]), 0)
        self.assertGreater(told(self.ask("other", path, guess("A third one. "))[1]), 50, "shared by its own two")

    def test_counters_are_those_of_the_key(self):
        path = "/v1/completions"
        before = {key: self.ask(key, "/v1/cache")[1] for key in ("mine", "other", "chief")}
        self.ask("mine", path, DIALECTS[path]("Counted. " + STORY))
        self.ask("mine", path, DIALECTS[path]("Counted. " + STORY))
        WithServer.eventually(  # an operator's figures are those of the engine's last step
            self, lambda: self.ask("chief", "/v1/cache")[1]["lookups"] == before["chief"]["lookups"] + 2)
        after = {key: self.ask(key, "/v1/cache")[1] for key in before}
        self.assertEqual(after["other"], before["other"])
        for key in ("mine", "chief"):
            self.assertEqual(after[key]["lookups"], before[key]["lookups"] + 2)
            self.assertEqual(after[key]["hits"], before[key]["hits"] + 1)
        self.assertEqual([name for name in ("size", "sessions") if name in after["mine"]], [])
        self.assertGreater(after["chief"]["size"], 0)

    def test_metrics_of_the_cache_are_those_of_the_key(self):
        path = "/v1/completions"
        seen = []
        for _ in range(2):
            seen.append({key: lines(text(self.server, key, "/metrics")[1]) for key in ("mine", "other", "chief")})
            self.ask("mine", path, DIALECTS[path]("Metrics. " + STORY))
        before, after = seen
        kept = [name for name in before["other"] if name.startswith("foretoken_cache_")]
        self.assertTrue(kept)
        for name in kept:
            self.assertEqual(before["other"][name], after["other"][name], name)
        lookups = "foretoken_cache_lookups_total"
        self.assertEqual(float(after["mine"][lookups]), float(before["mine"][lookups]) + 1)
        self.assertNotIn("foretoken_cache_bytes", after["mine"])
        self.assertNotIn("foretoken_reused_tokens_total", after["mine"])
        self.assertIn("foretoken_cache_bytes", after["chief"])

    def test_clearing_takes_what_is_the_keys(self):
        path = "/v1/completions"
        tales = {key: DIALECTS[path](f"Of {key}. {STORY}") for key in ("mine", "other")}
        for key, tale in tales.items():
            self.ask(key, path, tale)
        self.assertTrue(self.ask("other", "/v1/cache", method="DELETE")[1]["cleared"])
        self.assertGreater(told(self.ask("mine", path, tales["mine"])[1]), 50)
        self.assertEqual(told(self.ask("other", path, tales["other"])[1]), 0)
        self.ask("chief", "/v1/cache", method="DELETE")
        self.assertEqual(told(self.ask("mine", path, tales["mine"])[1]), 0)


def lines(metrics):
    """Metric values by name and labels."""
    return dict(line.rsplit(" ", 1) for line in metrics.splitlines() if not line.startswith("#"))


class Share(unittest.TestCase):
    """The modes of --cache-share."""

    def second(self, share):
        path = "/v1/completions"
        with Server("--api-key", "mine", "--api-key", "other", "--cache-share", share) as server:
            for _ in range(2):
                ask(server, "mine", path, DIALECTS[path](STORY))
            other = [told(ask(server, "other", path, DIALECTS[path](STORY))[1]) for _ in range(2)]
            return [count > 50 for count in other]

    def test_keys_tells_of_every_hit_and_none_shares_nothing(self):
        self.assertEqual(self.second("keys"), [True, True])
        self.assertEqual(self.second("none"), [False, True])


class Ids(Owned):
    def test_every_id_has_128_bits_and_none_comes_twice(self):
        seen = set()
        with Client(self.server.url) as client:
            for _ in range(200):
                client.get("/health")
                seen.add(client.answer()[1]["x-request-id"])
        self.assertEqual(len(seen), 200)
        for found in seen:
            self.assertRegex(found, r"^req_[0-9a-f]{32}$")
        reply = self.ask("mine", "/v1/responses", {"input": "Hello", "max_output_tokens": 4})[1]
        self.assertRegex(reply["id"], r"^resp_[0-9a-f]{32}$")
        self.assertRegex(reply["output"][0]["id"], r"^(msg|rs)_[0-9a-f]{32}$")


class Reload(Owned):
    def test_sighup_reads_the_keys_again_and_ends_no_answer(self):
        with Client(self.server.url) as client:
            client.post("/v1/chat/completions", chat("Tell.", max_tokens=200, stream=True,
                                                     logit_bias=NEVER_ENDING), ["x-api-key: mine"])
            client.head()
            self.write(self.users, "other\nfresh\n")
            self.server.process.send_signal(signal.SIGHUP)
            self.eventually(lambda: self.ask("fresh", "/v1/models")[0] == 200)
            self.assertEqual(self.ask("mine", "/v1/models")[0], 401)
            self.assertEqual(self.ask("other", "/v1/models")[0], 200)
            self.assertEqual(self.ask("chief", "/v1/models")[0], 200)
            client.until(b"[DONE]")
        self.write(self.users, "a key with blanks\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.eventually(lambda: "the keys are unchanged" in self.server.log())
        self.assertEqual(self.ask("fresh", "/v1/models")[0], 200)

    def eventually(self, holds):
        self.assertTrue(WithServer.eventually(self, holds))


class Terminal(unittest.TestCase):
    def test_a_program_whose_terminal_closes_ends_with_grace(self):
        """The server is the leader of a session with a separate terminal, as in a window that is closed."""
        import pty  # not on every system
        child, terminal = pty.fork()
        if child == 0:
            os.execv(program(), [program(), "serve", "--port", "0", "--json"])
        text = b""
        while b'"context"' not in text:
            text += os.read(terminal, 4096)
        os.close(terminal)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
