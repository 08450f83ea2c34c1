#!/usr/bin/env python3
"""The built server with a cache folder: kills, restarts, damage, and a wrong folder. Standard library only.

    cache_dir_test.py PROGRAM [CLASS]
"""
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client, chat  # noqa: E402
from server_process import Server, program  # noqa: E402
from short_model import short_model  # noqa: E402

KILLS = 5 if os.environ.get("FORETOKEN_FULL") == "1" else 2
NEVER_ENDING = {"8178": -100, "8180": -100}


def body(i, **more):
    """A long prompt; every other request samples, and one in three does not draft."""
    words = " ".join(f"Line {n} of text {i} says {n * (i + 3) % 97}." for n in range(30))
    kind = {"temperature": 0.9 if i % 2 else 0, "seed": i, "max_tokens": 24}
    kind.update({"speculation": "off"} if i % 3 == 2 else {"depth": 3})
    return chat(f"Read this. {words} What did it say?", **{**kind, **more})


def ask(server, request):
    with Client(server.url, timeout=120) as client:
        client.post("/v1/chat/completions", request)
        status, _, text = client.answer()
        assert status == 200, text
        return json.loads(text)


def said(answer):
    return answer["choices"][0]["message"]["content"]


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def disk(server):
    with urllib.request.urlopen(server.url + "/v1/cache") as reply:
        return json.load(reply)["disk"]


def eventually(holds, seconds=240):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def kill(server):
    server.process.send_signal(signal.SIGKILL)
    server.process.wait()
    server.process.stdout.close()


class CacheDir(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name) / "prompts"

    def server(self, *more):
        return Server("--model", short_model(), "--slots", "4", "--cache-dir", str(self.path), *more)

    def files(self):
        return sorted(self.path.glob("*.ftcache"))

    def test_a_restart_begins_with_what_was_kept_and_answers_as_a_cold_server(self):
        with Server("--model", short_model(), "--slots", "4", "--cache-mb", "0") as server:
            cold = [ask(server, body(i)) for i in range(6)]
        with self.server() as server:
            for i in range(6):
                self.assertEqual(said(ask(server, body(i))), said(cold[i]))
        self.assertGreaterEqual(len(self.files()), 6, "the end of a server waits for what it still has to write")
        with self.server() as server:
            self.assertEqual(disk(server)["files"], len(self.files()))
            for i in range(6):
                answer = ask(server, body(i))
                self.assertEqual(said(answer), said(cold[i]), i)
                self.assertEqual(cached(answer), answer["usage"]["prompt_tokens"] - 1, i)
                self.assertEqual(answer["speculation"]["engaged"], i % 3 != 2, i)
            self.assertEqual(disk(server)["hits"], 6)
            metrics = urllib.request.urlopen(server.url + "/metrics").read().decode()
            self.assertIn("foretoken_cache_disk_loads_total 6\n", metrics)
            delete = urllib.request.Request(server.url + "/v1/cache", method="DELETE")
            self.assertIn("disk", json.load(urllib.request.urlopen(delete)))
            self.assertTrue(eventually(lambda: disk(server)["files"] == 0))
            self.assertTrue(eventually(lambda: not self.files()))
            self.assertEqual(cached(ask(server, body(0))), 0)

    def test_kill_9_while_writing_and_answering_loses_only_the_running_answers(self):
        with Server("--model", short_model(), "--slots", "4", "--cache-mb", "0") as server:
            cold = [said(ask(server, body(i))) for i in range(4)]
        dice = random.Random(5)
        for life in range(KILLS):
            server = self.server().start()
            for i in range(4):
                answer = ask(server, body(i))
                self.assertEqual(said(answer), cold[i], (life, i))
                if life > 0:
                    self.assertGreater(cached(answer), 0, (life, i))
            # This prompt is stored before the load that the kill interrupts.
            self.assertTrue(eventually(lambda to=server: disk(to)["files"] >= 4 + life))

            def storm(seed, to=server):
                try:
                    for n in range(1000):
                        ask(to, body(1000 * (seed + 1) + n, max_tokens=60, logit_bias=NEVER_ENDING))
                except (OSError, EOFError):
                    pass  # killed

            clients = [threading.Thread(target=storm, args=(4 * life + seed,)) for seed in range(4)]
            for client in clients:
                client.start()
            written = disk(server)["written"]
            self.assertTrue(eventually(lambda to=server, at=written: disk(to)["written"] > at))
            time.sleep(dice.random() * 0.3)
            kill(server)
            for client in clients:
                client.join()
            (self.path / ("0" * 32 + ".ftcache.part")).write_bytes(b"half")  # as if killed in a write
        with self.server() as server:
            self.assertEqual(list(self.path.glob("*.part")), [])
            self.assertEqual(disk(server)["dropped"], 0, server.log())
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                answers = list(pool.map(lambda i: ask(server, body(i)), range(4)))
            for i, answer in enumerate(answers):
                self.assertEqual(said(answer), cold[i], i)
                self.assertGreater(cached(answer), 0, i)

    def test_damaged_files_are_dropped_and_said_and_the_answers_are_right(self):
        with self.server() as server:
            first = [said(ask(server, body(i))) for i in range(3)]
        files = self.files()
        self.assertGreaterEqual(len(files), 3)
        for n, file in enumerate(files):
            data = bytearray(file.read_bytes())
            if n % 3 == 0:
                del data[len(data) // 2:]
            elif n % 3 == 1:
                data[len(data) // 2] ^= 8
            else:
                data[100] ^= 1
            file.write_bytes(data)
        with self.server() as server:
            for i in range(3):
                answer = ask(server, body(i))
                self.assertEqual(said(answer), first[i])
                self.assertEqual(cached(answer), 0)
            self.assertGreater(disk(server)["dropped"], 0)
            self.assertIn("damaged", server.log())
            self.assertEqual(ask(server, body(0))["choices"][0]["message"]["content"], first[0])

    def test_files_of_another_model_are_dropped_once(self):
        with self.server() as server:
            ask(server, body(0))
        kept = len(self.files())
        model = pathlib.Path(self.folder.name) / "model"
        shutil.copytree(short_model(), model, copy_function=shutil.copy)  # of another time
        with self.server("--model", str(model)) as server:
            self.assertEqual(disk(server)["files"], 0)
            self.assertEqual(disk(server)["dropped"], kept)
            self.assertEqual(server.log().count("another model"), 1, server.log())

    def refused(self, *arguments):
        done = subprocess.run([program(), "serve", "--port", "0", *arguments], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_a_folder_that_cannot_be_used_is_named(self):
        file = pathlib.Path(self.folder.name) / "file"
        file.write_text("")
        self.assertIn(str(file), self.refused("--cache-dir", str(file)))
        self.assertIn("--cache-dir", self.refused("--cache-dir", "/proc/nothing"))
        self.assertIn("--cache-mb", self.refused("--cache-dir", str(self.path), "--cache-mb", "0"))
        with self.server():
            said_so = self.refused("--cache-dir", str(self.path))
            self.assertIn("another foretoken", said_so)
            self.assertIn(str(self.path), said_so)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main(verbosity=2)
