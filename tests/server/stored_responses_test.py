#!/usr/bin/env python3
"""Stored responses of the built server in a file: restarts, kills, two servers with one file, wrong files.
Standard library only.

    stored_responses_test.py PROGRAM
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server_process import Server, program  # noqa: E402

KILLS = 20 if os.environ.get("FORETOKEN_FULL") == "1" else 3


def call(server, path, body=None, key=None, method=None):
    """(status, answer)"""
    head = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url + path, data=data, headers=head, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def say(server, text, **more):
    status, answer = call(server, "/v1/responses", {"input": text, "max_output_tokens": 4, "temperature": 0},
                          **more)
    assert status == 200, answer
    return answer["id"]


class Stored(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = pathlib.Path(self.folder.name, "responses.sqlite")

    def server(self, *flags):
        return Server("--response-store", str(self.file), *flags)

    def test_a_response_is_continued_after_a_restart_by_its_key_alone(self):
        with self.server("--api-key", "mine", "--api-key", "other") as server:
            first = say(server, "Remember this.", key="mine")
        with self.server("--api-key", "mine", "--api-key", "other") as server:
            self.assertEqual(call(server, f"/v1/responses/{first}", key="mine")[0], 200)
            self.assertEqual(call(server, f"/v1/responses/{first}", key="other")[0], 404)
            more = {"input": "And now?", "previous_response_id": first, "max_output_tokens": 4}
            self.assertEqual(call(server, "/v1/responses", more, key="mine")[0], 200)
            self.assertEqual(call(server, "/v1/responses", more, key="other")[0], 404)
            self.assertEqual(call(server, f"/v1/responses/{first}", key="mine", method="DELETE")[0], 200)
            self.assertEqual(call(server, f"/v1/responses/{first}", key="mine")[0], 404)

    def test_no_kill_loses_a_response_that_was_answered(self):
        known = []
        for _ in range(KILLS):
            server = self.server().start()
            for response in known:
                self.assertEqual(call(server, f"/v1/responses/{response}")[0], 200)
            known.append(say(server, "a"))
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            server.process.stdout.close()

    def test_two_servers_share_the_file(self):
        with self.server() as one, self.server() as two:
            response = say(one, "a")
            self.assertEqual(call(two, f"/v1/responses/{response}")[0], 200)

    def test_items_are_referred_to(self):
        with self.server() as server:
            answer = call(server, f"/v1/responses/{say(server, 'a')}")[1]
            items = [{"type": "item_reference", "id": item["id"]} for item in answer["output"]]
            body = {"input": [{"role": "user", "content": "a"}, *items, {"role": "user", "content": "b"}],
                    "max_output_tokens": 4}
            self.assertEqual(call(server, "/v1/responses", body)[0], 200)
            items[0]["id"] = "msg_unknown"
            status, wrong = call(server, "/v1/responses", body)
            self.assertEqual((status, wrong["error"]["param"]), (404, "input[1].id"))

    def test_nothing_is_written_with_off_and_a_wrong_file_is_refused(self):
        state = {"XDG_STATE_HOME": self.folder.name}
        with Server("--response-store", "off", environment=state) as server:
            say(server, "a")
        self.assertEqual(list(pathlib.Path(self.folder.name).rglob("*.sqlite*")), [])
        with Server("--response-store", "auto", environment=state) as server:
            say(server, "a")
        self.assertTrue(pathlib.Path(self.folder.name, "foretoken/responses.sqlite").exists())
        self.file.write_text("This is a text and no database. " * 40)
        refused = subprocess.run([program(), "serve", "--port", "0", "--response-store", str(self.file)],
                                 capture_output=True, text=True, timeout=120, check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("name another file, or delete it", refused.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main()
