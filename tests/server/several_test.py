#!/usr/bin/env python3
"""Several models at one address: choice, memory, crashes, keys, and no process left over.

    several_test.py PROGRAM [CLASS]

Mixed is the long one: SEVERAL_SECONDS=600 (default 3; 600 with FORETOKEN_FULL=1).
"""
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
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client, chat, frames  # noqa: E402
from server_process import ROOT, Server, program  # noqa: E402

SHIPPED = "qwen3.5-tiny"
FIRST, SECOND = "synth:tiny?layers=4&seed=3", "synth:tiny?layers=4&seed=4"
NAMES = [SHIPPED, FIRST, SECOND]
SMALL = {"FORETOKEN_CONTEXT": "1024", "FORETOKEN_SLOTS": "4", "FORETOKEN_CACHE_MB": "8"}
NEVER_ENDING = {"8178": -100, "8180": -100}
LONG = os.environ.get("FORETOKEN_FULL") == "1"
SECONDS = float(os.environ.get("SEVERAL_SECONDS", "600" if LONG else "3"))
CLIENTS = 30 if SECONDS > 60 else 8


def several(*arguments, names=(), environment=None, **more):
    words = [word for name in names or NAMES for word in ("--models", name)]
    return Server(*words, *arguments, environment={**SMALL, **(environment or {})}, **more)


def ask(server, body, path="/v1/chat/completions", headers=(), timeout=120):
    """-> (status, header, the body as JSON)"""
    with Client(server.url, timeout=timeout) as client:
        client.post(path, body, headers)
        status, fields, answer = client.answer()
        return status, fields, json.loads(answer)


def get(server, path, headers=(), method="GET"):
    with Client(server.url) as client:
        client.get(path, headers, method)
        status, fields, answer = client.answer()
        return status, fields, answer


def listed(server):
    return {one["id"]: one for one in json.loads(get(server, "/v1/models")[2])["data"]}


def states(server):
    return {name: one["state"] for name, one in listed(server).items()}


def text_of(answer):
    return answer["choices"][0]["message"]["content"]


def children(server):
    return [int(pid) for pid in subprocess.run(["pgrep", "-P", str(server.process.pid)], stdout=subprocess.PIPE,
                                               check=False).stdout.split()]


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def eventually(condition, seconds=240):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def needed_mb():
    """The memory of each model, as admission computes it."""
    with several() as server:
        for name in NAMES:
            status, _, _ = ask(server, {}, f"/v1/models/{urllib.parse.quote(name, safe='')}/load")
            assert status == 200
        return {name: one["memory"] / 2**20 for name, one in listed(server).items()}


class Choice(unittest.TestCase):
    def test_the_models_of_a_request_answer_it_as_they_would_alone(self):
        body = chat("Tell a story about a bridge.", max_tokens=24, seed=7, temperature=0.7)
        with several() as server:
            self.assertEqual(set(states(server).values()), {"unloaded"})
            found = {name: text_of(ask(server, {**body, "model": name})[2]) for name in NAMES}
            self.assertEqual(found[SHIPPED], text_of(ask(server, body)[2]), "without a name the first answers")
            self.assertEqual(set(states(server).values()), {"ready"})
            self.assertEqual(ask(server, {**body, "model": FIRST})[2]["model"], FIRST)
        for name in NAMES:
            with Server("--model", "" if name == SHIPPED else name, environment=SMALL) as alone:
                self.assertEqual(text_of(ask(alone, body)[2]), found[name], name)

    def test_the_screen_shows_a_command_that_reaches_this_server(self):
        command = [program(), "serve", "--port", "0", "--models", str(ROOT / "assets/qwen3.5-tiny")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env={**os.environ, **SMALL}) as server:
            screen = [server.stdout.readline()]
            while not screen[-1].startswith("  status"):
                screen.append(server.stdout.readline())
                self.assertNotEqual(screen[-1], "", screen)
            words = screen[-1].split()[1:]
            self.assertEqual(words[:3], ["foretoken", "status", "--url"])
            shown = subprocess.run([program(), *words[1:]], capture_output=True, text=True, timeout=60, check=True)
            self.assertIn("qwen3.5-tiny", shown.stdout)
            server.terminate()

    def test_every_dialect_passes_through(self):
        with several() as server:
            said = {"role": "user", "content": "Hello"}
            status, fields, answer = ask(server, {"model": FIRST, "max_tokens": 8, "messages": [said]},
                                         "/v1/messages")
            self.assertEqual((status, answer["type"], answer["model"]), (200, "message", FIRST))
            self.assertIn("request-id", fields)
            status, _, answer = ask(server, {"model": FIRST, "messages": [said]}, "/v1/messages/count_tokens")
            self.assertGreater(answer["input_tokens"], 0)
            status, _, answer = ask(server, {"model": SECOND, "prompt": "One, two,", "max_tokens": 4},
                                    "/v1/completions")
            self.assertEqual((status, answer["object"]), (200, "text_completion"))
            status, _, answer = ask(server, {"model": SHIPPED, "text": "One"}, "/v1/tokenize")
            self.assertEqual(status, 200)
            status, _, page = get(server, "/")
            self.assertEqual(status, 200)
            status, _, props = get(server, "/props?model=" + urllib.parse.quote(SECOND))
            self.assertEqual(json.loads(props)["model"], SECOND)
            metrics = get(server, "/metrics")[2].decode()
            self.assertIn(f'foretoken_model_ready{{model="{FIRST}"}} 1', metrics)
            self.assertIn("foretoken_rounds_total", get(server, "/metrics?model=" + SHIPPED)[2].decode())
            self.assertEqual(json.loads(get(server, "/v1/models", ["anthropic-version: 1"])[2])["first_id"], SHIPPED)
            self.assertEqual({one["state"] for one in json.loads(get(server, "/health")[2])["models"]}, {"ready"})

    def test_wrong_requests_are_told_what_is_wrong_and_load_nothing(self):
        with several() as server:
            status, _, answer = ask(server, chat(model="nobody"))
            self.assertEqual(status, 404)
            for name in NAMES:
                self.assertIn(name, answer["error"]["message"])
            self.assertEqual(answer["error"]["param"], "model")
            self.assertEqual(ask(server, b"{")[0], 400)
            self.assertEqual(ask(server, {**chat(), "model": 7})[0], 400)
            self.assertEqual(ask(server, {}, "/v1/models/nobody/load")[0], 404)
            self.assertEqual(get(server, "/v1/models/nobody")[0], 404)
            self.assertEqual(ask(server, {}, "/v1/responses/compact")[0], 501)
            self.assertEqual(get(server, "/v1/responses/resp_none")[0], 404)
            self.assertEqual(set(states(server).values()), {"unloaded"})
            self.assertEqual(ask(server, chat("Hi", model=SHIPPED, max_tokens=0))[0], 400, "the model's own error")

    def test_a_model_that_does_not_load_is_told_in_its_own_words(self):
        with tempfile.TemporaryDirectory() as folder:
            broken = pathlib.Path(folder) / "broken"
            shutil.copytree(ROOT / "assets" / SHIPPED, broken)
            for file in broken.glob("*.safetensors"):
                file.write_bytes(file.read_bytes()[:1000])
            with several(names=[SHIPPED, str(broken)]) as server:
                status, _, answer = ask(server, chat(model="broken"))
                self.assertIn(status, (500, 503))
                self.assertIn("safetensors", answer["error"]["message"])
                self.assertIn("safetensors", listed(server)["broken"]["problem"])
                self.assertEqual(ask(server, chat(model=SHIPPED, max_tokens=4))[0], 200)

    def test_models_are_loaded_and_unloaded_when_told(self):
        with several() as server:
            place = "/v1/models/" + urllib.parse.quote(FIRST, safe="")
            self.assertEqual(ask(server, {}, place + "/load")[2]["state"], "ready")
            self.assertEqual(len(children(server)), 1)
            shown = subprocess.run([program(), "status", "--url", server.url], stdout=subprocess.PIPE, text=True,
                                   check=True).stdout
            self.assertRegex(shown, r"seed=3 +ready")
            self.assertRegex(shown, r"seed=4 +unloaded")
            settings = subprocess.run([program(), "connect", "sdk", "--url", server.url, "--model", SECOND],
                                      stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertIn(SECOND, settings)
            self.assertEqual(ask(server, {}, place + "/unload")[2]["state"], "unloaded")
            self.assertEqual(children(server), [])


class Streams(unittest.TestCase):
    def test_a_stream_passes_through_as_it_is_made_and_a_client_that_leaves_ends_it(self):
        with several() as server:
            ask(server, {}, "/v1/models/qwen3.5-tiny/load")
            with Client(server.url) as client:
                client.post("/v1/chat/completions", chat("Count.", model=SHIPPED, max_tokens=900, stream=True,
                                                         logit_bias=NEVER_ENDING))
                client.until(b"data: ")
                self.assertEqual(listed(server)[SHIPPED]["answering"], 1, "the first frame came before the last")
            self.assertTrue(eventually(lambda: listed(server)[SHIPPED]["answering"] == 0))
            self.assertTrue(eventually(lambda: b"foretoken_requests_running 0" in
                                       get(server, "/metrics?model=" + SHIPPED)[2]))
            with Client(server.url) as client:
                client.post("/v1/chat/completions", chat("Hi", model=SHIPPED, max_tokens=8, stream=True))
                status, fields, body = client.answer()
                self.assertEqual((status, frames(body)[-1]["object"]), (200, "chat.completion.chunk"))
                client.post("/v1/chat/completions", chat("Hi", model=SHIPPED, max_tokens=8))
                self.assertEqual(client.answer()[0], 200, "the connection continues")

    def test_a_crash_is_an_error_of_its_requests_alone_and_the_model_comes_back(self):
        with several() as server:
            ask(server, {}, "/v1/models/qwen3.5-tiny/load")
            shipped = children(server)
            ask(server, chat(model=FIRST, max_tokens=2))
            others = set(children(server)) - set(shipped)
            body = chat("Count.", max_tokens=900, stream=True, logit_bias=NEVER_ENDING)
            with Client(server.url) as other:
                other.post("/v1/chat/completions", {**body, "model": FIRST, "max_tokens": 200})
                other.until(b"data: ")
                for count in (1, 2, 3):
                    with Client(server.url) as broken:
                        broken.post("/v1/chat/completions", {**body, "model": SHIPPED})
                        broken.until(b"data: ")
                        os.kill((set(children(server)) - others).pop(), signal.SIGKILL)
                        self.assertIn(b"ended during this request", broken.rest())
                    # The next request waits for the new process.
                    status, _, answer = ask(server, chat(model=SHIPPED, max_tokens=4))
                    self.assertEqual(status, 200, answer)
                    self.assertIn(f'foretoken_model_crashes_total{{model="qwen3.5-tiny"}} {count}',
                                  get(server, "/metrics")[2].decode())
                other.until(b"[DONE]")  # the other model is not disturbed


class Keys(unittest.TestCase):
    def test_keys_hold_at_the_front_and_responses_belong_to_them(self):
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "responses.sqlite")
            with several("--api-key", "one", "--api-key", "two",
                         environment={"FORETOKEN_RESPONSE_STORE": store}) as server:
                one, two = ["Authorization: Bearer one"], ["x-api-key: two"]
                body = {"model": FIRST, "input": "Hello", "max_output_tokens": 8}
                self.assertEqual(ask(server, body, "/v1/responses")[0], 401)
                self.assertEqual(get(server, "/health")[2], b'{"status":"ready"}')
                forged = ["x-foretoken-caller: 0 operator"]
                self.assertEqual(ask(server, body, "/v1/responses", forged)[0], 401)
                status, _, answer = ask(server, body, "/v1/responses", one)
                self.assertEqual(status, 200, answer)
                place = "/v1/responses/" + answer["id"]
                ask(server, {}, f"/v1/models/{urllib.parse.quote(FIRST, safe='')}/unload", one)
                self.assertEqual(get(server, place, two + forged)[0], 404)
                self.assertEqual(get(server, place, one)[0], 200, "kept although its model was unloaded")
                more = {"model": FIRST, "input": "And?", "previous_response_id": answer["id"], "max_output_tokens": 8}
                self.assertEqual(ask(server, more, "/v1/responses", two)[0], 404)
                self.assertEqual(ask(server, more, "/v1/responses", one)[0], 200)
                self.assertEqual(get(server, place, one, "DELETE")[0], 200)


class Ends(unittest.TestCase):
    def test_no_process_outlives_its_front(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            server = several().start()
            for name in NAMES[:2]:
                ask(server, chat(model=name, max_tokens=2))
            started = children(server)
            self.assertEqual(len(started), 2)
            with Client(server.url) as client:
                client.post("/v1/chat/completions", chat("Count.", model=SHIPPED, max_tokens=100, stream=True,
                                                         logit_bias=NEVER_ENDING))
                client.until(b"data: ")
                server.process.send_signal(number)
                code = server.process.wait(60)
                self.assertEqual(code, 0 if number == signal.SIGTERM else -number)
                if number == signal.SIGTERM:
                    self.assertIn(b"[DONE]", client.rest(), "a running answer finishes")
            self.assertTrue(eventually(lambda: not any(alive(pid) for pid in started), 10), number)
            server.process.stdout.close()


class Memory(unittest.TestCase):
    def test_the_least_recently_used_model_leaves_and_one_too_large_is_told(self):
        needed = needed_mb()
        limit = int(max(needed[SHIPPED] + needed[FIRST], needed[SHIPPED] + needed[SECOND])) + 1
        with several("--memory-mb", str(limit)) as server:
            for name in (FIRST, SHIPPED, FIRST, SECOND):
                self.assertEqual(ask(server, chat(model=name, max_tokens=2))[0], 200, name)
            self.assertEqual(states(server)[SECOND], "ready")
            self.assertLessEqual(sum(one["memory"] for one in listed(server).values() if one["state"] == "ready"),
                                 limit * 2**20)

    def test_a_model_larger_than_memory_is_listed_and_only_its_requests_fail(self):
        large = "synth:qwen3.5-122b-a10b"
        with several(names=[large, SHIPPED]) as server:
            for path in ("/v1/chat/completions", f"/v1/models/{urllib.parse.quote(large, safe='')}/load"):
                status, fields, answer = ask(server, chat(model=large), path)
                self.assertEqual((status, fields["x-should-retry"]), (503, "false"))
                self.assertRegex(answer["error"]["message"], r"needs [\d.]+ [TG]B of memory.*--memory-mb")
            self.assertEqual(list(listed(server)), [large, SHIPPED])
            self.assertIn("memory", listed(server)[large]["problem"])
            self.assertEqual(ask(server, chat(model=SHIPPED, max_tokens=4))[0], 200)


class Mixed(unittest.TestCase):
    """Clients use three models; memory holds two."""

    def body(self, dice):
        kind = dice.randrange(4)
        prompt = dice.choice(["Count to ten.", "Tell a story about the sea.", "Why?", "Write a list. " * 20])
        return chat(prompt, model=dice.choice(NAMES), max_tokens=8 + 24 * kind, seed=kind,
                    temperature=0 if kind % 2 else 0.8)

    def answers(self, server, seeds):
        found = {}
        for seed in seeds:
            status, _, answer = ask(server, self.body(random.Random(seed)))
            self.assertEqual(status, 200, answer)
            found[seed] = text_of(answer)
        return found

    def client(self, server, number, end, alone, wrong):
        dice = random.Random(number)
        try:
            while time.time() < end:
                seed = dice.randrange(len(alone))
                body, streams = self.body(random.Random(seed)), dice.random() < 0.5
                with Client(server.url, timeout=240) as client:
                    client.post("/v1/chat/completions", {**body, "stream": streams})
                    if dice.random() < 0.1:
                        continue  # leaves
                    status, fields, answer = client.answer()
                if status == 503 and "retry-after" in fields:
                    time.sleep(0.2)
                    continue
                if status != 200:
                    raise AssertionError(answer)
                text = "".join(frame["choices"][0]["delta"].get("content") or "" for frame in frames(answer)
                               if frame["choices"]) if streams else text_of(json.loads(answer))
                if text != alone[seed]:
                    raise AssertionError(f"{body}: {text!r} instead of {alone[seed]!r}")
                self.answered += 1
        except Exception as error:  # pylint: disable=broad-except
            wrong.append(f"client {number}: {error!r}")

    def test_every_answer_equals_its_lone_run_and_memory_returns(self):
        needed = needed_mb()
        with several() as server:
            alone = self.answers(server, range(24))
        limit = int(max(a + b for a in needed.values() for b in needed.values() if a != b)) + 1
        self.answered, wrong = 0, []
        with several("--memory-mb", str(limit), "--idle-minutes", "1") as server:
            end = time.time() + SECONDS
            clients = [threading.Thread(target=self.client, args=(server, number, end, alone, wrong))
                       for number in range(CLIENTS)]
            for one in clients:
                one.start()
            for one in clients:
                one.join(SECONDS + 300)
            self.assertFalse(any(one.is_alive() for one in clients), "a client hangs")
            self.assertEqual(wrong, [])
            metrics = get(server, "/metrics")[2].decode()
            loads = sum(int(float(line.split()[-1])) for line in metrics.splitlines()
                        if line.startswith("foretoken_model_loads_total{"))
            print(f"{self.answered} answers, {loads} loads")
            self.assertGreater(self.answered, CLIENTS / 2)
            self.assertTrue(eventually(lambda: all(one["answering"] + one["waiting"] == 0
                                                   for one in listed(server).values())))
            if LONG or SECONDS > 60:
                self.assertTrue(eventually(lambda: not children(server), 90), "idle models are unloaded")
                with open(f"/proc/{server.process.pid}/status", encoding="ascii") as facts:
                    resident_kb = int(facts.read().split("VmRSS:")[1].split()[0])
                self.assertLess(resident_kb, 200_000)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        os.environ["FORETOKEN"] = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
