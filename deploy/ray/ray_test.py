#!/usr/bin/env python3
"""A Ray cluster on this machine: one gateway, three replicas of the shipped model, real clients, killed replicas.

    tools/ray_test                  in seconds; FORETOKEN_FULL=1: 200 clients, and ten minutes of killed replicas

Ray Serve has the settings of docs/scale.md; RAY_SETTINGS=usual: its own (first_token.py lists them).
"""
import concurrent.futures
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests/server")]
from first_token import USUAL, VARIANTS  # noqa: E402

SERVE = VARIANTS[os.environ.get("RAY_SETTINGS", "haproxy")]
os.environ.update({**USUAL, **SERVE})  # Ray reads them when it is imported

import openai  # noqa: E402
import ray  # noqa: E402
from foretoken_ray.application import build  # noqa: E402
from ray import serve  # noqa: E402
from server_process import Server  # noqa: E402

FULL = os.environ.get("FORETOKEN_FULL") == "1"
CLIENTS = 200 if FULL else 24
CHAOS_S, KILL_EVERY_S = (600, 20) if FULL else (20, 5)
PORT = 18000 + os.getpid() % 2000
URL = f"http://127.0.0.1:{PORT}"
FLAGS = {"slots": 4, "cache-mb": 128, "calibration": "measure"}
NEVER_ENDING = {"8178": -100, "8180": -100}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 20}, "size": {"type": "integer"}},
    "required": ["city", "size"], "additionalProperties": False}}}
KEY = "k-test"


def settings(resume, **more):
    tiny = {"name": "tiny", "replicas": {"least": 3, "most": 3}, "cpus": 1, "flags": FLAGS, **more}
    second = {"name": "second", "replicas": {"least": 1, "most": 2, "ongoing": 1, "up_s": 1}, "flags": FLAGS}
    return {"models": [tiny, second], "resume": resume, "api_key_file": str(pathlib.Path(FOLDER.name) / "keys")}


def deploy(*arguments, **more):
    serve.run(build(settings(*arguments, **more)), route_prefix="/")


def setUpModule():
    global FOLDER
    FOLDER = tempfile.TemporaryDirectory(prefix="ft")
    (pathlib.Path(FOLDER.name) / "keys").write_text(f"# of the test\n{KEY}\n", encoding="ascii")
    ray.init(num_cpus=16, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False,
             logging_level="ERROR", _temp_dir=FOLDER.name,
             runtime_env={"env_vars": {"PYTHONPATH": str(HERE), "FORETOKEN_TEST_CLUSTER": FOLDER.name, **SERVE}})
    serve.start(http_options={"port": PORT})
    deploy(True)


def tearDownModule():
    serve.shutdown()
    ray.shutdown()
    FOLDER.cleanup()


def request(number):
    """The request of client `number`: text, tool, schema or sampled text; its seed makes it repeatable."""
    kind = number % 4
    body = {"model": "tiny", "seed": number, "max_tokens": 40, "temperature": 0 if kind == 0 else 0.9,
            "messages": [{"role": "user", "content": f"Tell me about the number {number} and the city of Paris."}]}
    if kind == 1:
        body.update(tools=[WEATHER], tool_choice="required")
    elif kind == 2:
        body["response_format"] = SCHEMA
    elif kind == 3:
        body.update(max_tokens=150, logit_bias=NEVER_ENDING)
    return body


def streamed(client, body):
    """Text and tool calls of a streamed answer and its end, without names."""
    text, calls, end = "", "", None
    for event in client.chat.completions.create(**body, stream=True):
        for choice in event.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                calls += (call.function.name or "") + (call.function.arguments or "")
            end = choice.finish_reason or end
    return text, calls, end


def whole(client, body):
    choice = client.chat.completions.create(**body).choices[0]
    calls = "".join(call.function.name + call.function.arguments for call in choice.message.tool_calls or [])
    return choice.message.content or "", calls, choice.finish_reason


def programs(name="tiny"):
    """The process ids of the programs of a model on this cluster."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            ours = str(FOLDER.name).encode() in (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"serve" in words[:2] and name.encode() in words and ours:
            found.append(int(folder.name))
    return found


def running(deployment="model-tiny"):
    return serve.status().applications["default"].deployments[deployment].replica_states.get("RUNNING", 0)


def settles(holds, seconds=120):
    deadline = time.monotonic() + seconds
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.2)
    return holds()


def work_of(pids):
    """Ticks of processor time so far."""
    return sum(sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[11:13]))
               for pid in pids)


def sdk(retries=0, key=KEY):
    return openai.OpenAI(base_url=f"{URL}/v1", api_key=key, max_retries=retries, timeout=180)


class Cluster(unittest.TestCase):
    def lone(self, numbers):
        """Each answer on a separate server, one at a time."""
        with Server("--slots", "1", "--alias", "tiny") as server:
            client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=180)
            return {number: whole(client, request(number)) for number in numbers}

    def setUp(self):
        self.assertTrue(settles(lambda: running() == 3 and len(programs()) == 3), "three replicas run")


class Answers(Cluster):
    def test_many_clients_get_the_answers_of_lone_runs(self):
        expected = self.lone(range(CLIENTS))

        def live(number):
            ask = streamed if number % 3 else whole
            return number, ask(sdk(3), request(number))

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for number, answer in pool.map(live, range(CLIENTS)):
                self.assertEqual(answer, expected[number], f"client {number}")

    def test_keys_models_and_mistakes_have_the_errors_of_sdks(self):
        with self.assertRaises(openai.AuthenticationError):
            sdk(key="another").models.list()
        self.assertEqual({model.id for model in sdk().models.list()}, {"tiny", "second"})
        hello = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
        with self.assertRaisesRegex(openai.NotFoundError, "use one of tiny, second"):
            sdk().chat.completions.create(model="absent", **hello)
        with self.assertRaises(openai.BadRequestError) as wrong:
            sdk().chat.completions.create(model="tiny", **hello, top_p=7)
        self.assertEqual(wrong.exception.param, "top_p")
        self.assertEqual(sdk().chat.completions.create(model="second", **hello).model, "second")

    def test_the_program_names_the_mistakes_of_odd_bodies(self):
        for body in (b"[1]", b"{", b'{"model": [], "messages": 5}', b'{"messages": [5]}', b'{"input": {}}', b""):
            post = urllib.request.Request(f"{URL}/v1/chat/completions", body, {"x-api-key": KEY})
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(post, timeout=60)
            self.assertEqual(refused.exception.code, 400, body)
            self.assertTrue(json.load(refused.exception)["error"]["message"])

    def test_a_client_that_leaves_ends_its_answer(self):
        body = {**request(3), "max_tokens": 3500, "model": "tiny"}
        stream = sdk().chat.completions.create(**body, stream=True)
        for _, _ in zip(range(5), stream):
            pass
        self.assertGreater(work_of(programs()), 0)
        stream.close()
        self.assert_idle()

    def test_a_client_that_leaves_a_whole_answer_ends_it(self):
        body, before = {**request(3), "max_tokens": 3500, "model": "tiny"}, work_of(programs())
        with self.assertRaises(openai.APITimeoutError):
            sdk().chat.completions.create(**body, timeout=1)
        self.assertGreater(work_of(programs()) - before, 10)
        self.assert_idle()

    def assert_idle(self):
        time.sleep(2)
        before = work_of(programs())
        time.sleep(2)
        self.assertLess(work_of(programs()) - before, 40, "ticks of an idle second are few, of a busy one 100")

    def test_the_door_is_ready_while_replicas_run(self):
        with urllib.request.urlopen(f"{URL}/health", timeout=60) as reply:
            self.assertEqual(json.load(reply), {"status": "ready"})

    def test_conversations_stay_where_their_prefix_is(self):
        def cached(client):
            share, total = 0, 0
            talks = [[] for _ in range(6)]
            for turn in range(5):
                for number, talk in enumerate(talks):
                    talk.append({"role": "user", "content": f"Turn {turn} of talk {number}: " + "tell me more. " * 15})
                    answer = client.chat.completions.create(model="tiny", messages=talk, max_tokens=8, seed=number)
                    talk.append({"role": "assistant", "content": answer.choices[0].message.content})
                    share += answer.usage.prompt_tokens_details.cached_tokens
                    total += answer.usage.prompt_tokens
            return share / total

        with Server("--slots", "4", "--cache-mb", "128", "--alias", "tiny") as server:
            alone = cached(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none"))
        together = cached(sdk())
        print(f"prefix hit rate: one server {alone:.3f}, three replicas {together:.3f}")
        self.assertGreaterEqual(together, 0.9 * alone)

    def test_the_first_token_comes_soon(self):
        """Prints what the gateway adds; a busy machine makes no promise."""
        def first(client):
            times = []
            for number in range(40):
                begin = time.monotonic()
                hello = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1, "seed": number}
                next(iter(client.chat.completions.create(model="tiny", stream=True, **hello)))
                times.append(1000 * (time.monotonic() - begin))
            return statistics.median(times)

        with Server("--slots", "4", "--alias", "tiny") as server:
            alone = first(openai.OpenAI(base_url=f"{server.url}/v1", api_key="none"))
        print(f"first token, median of 40: {alone:.1f} ms alone, {first(sdk()):.1f} ms through the gateway")


class Changes(Cluster):
    def test_waiting_requests_bring_another_replica(self):
        body, grown = {**request(3), "model": "second", "max_tokens": 1500}, threading.Event()

        def load(seed):
            """One answer after the other: a single one ends before the autoscaler looks."""
            ends = []
            while not grown.is_set():
                ends.append(streamed(sdk(3), {**body, "seed": seed})[2])
            return ends

        self.assertEqual(running("model-second"), 1)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            answers = [pool.submit(load, seed) for seed in range(6)]
            try:
                self.assertTrue(settles(lambda: running("model-second") == 2))
            finally:
                grown.set()
            for answer in answers:
                self.assertEqual(set(answer.result()), {"length"})

    def test_a_rolling_update_fails_no_request(self):
        old, over, failures, answers = set(programs()), threading.Event(), [], []
        expected = self.lone(range(4))

        def live(number):
            client = sdk(0)
            while not over.is_set():
                try:
                    answers.append(streamed(client, request(number)) == expected[number])
                except openai.OpenAIError as error:
                    failures.append(error)

        clients = [threading.Thread(target=live, args=(number,)) for number in range(4)]
        for client in clients:
            client.start()
        deploy(True, flags={**FLAGS, "slots": 3})
        self.assertTrue(settles(lambda: len(programs()) == 3 and not old & set(programs())))
        over.set()
        for client in clients:
            client.join()
        self.assertEqual(failures, [])
        self.assertTrue(answers and all(answers))


class Killed(Cluster):
    def health(self):
        try:
            return urllib.request.urlopen(f"{URL}/health", timeout=60).status
        except urllib.error.HTTPError as error:
            return error.code

    def kill_one(self, dice=random):
        os.kill(dice.choice(programs()), signal.SIGKILL)

    def kill_busiest(self):
        before = {pid: work_of([pid]) for pid in programs()}
        time.sleep(0.1)
        os.kill(max(before, key=lambda pid: work_of([pid]) - before[pid]), signal.SIGKILL)

    def long(self, seed):
        return {**request(3), "seed": seed, "max_tokens": 600}

    def lost(self, client, body):
        """Kills the replica of a stream after 20 events; the stream's text or error."""
        events, text = client.chat.completions.create(**body, stream=True), ""
        for at, event in enumerate(events):
            text += event.choices[0].delta.content or "" if event.choices else ""
            if at == 20:
                self.kill_busiest()
        return text

    def test_1_a_lost_answer_continues_with_the_same_tokens(self):
        for seed in (5, 6):
            expected = streamed(sdk(), self.long(seed))[0]
            self.assertEqual(self.lost(sdk(), self.long(seed)), expected)
            self.setUp()

    def test_2_every_dialect_continues(self):
        body = {"model": "tiny", "max_tokens": 600, "messages": [{"role": "user", "content": "Tell a story."}],
                "stream": True, "temperature": 0.8, "seed": 4}
        for path, more in (("/v1/messages", {}), ("/v1/completions", {"prompt": "def f(", "ignore_eos": True})):
            texts = [self.raw_text(path, {**body, **more}, kill) for kill in (False, True)]
            self.assertTrue(texts[0])
            self.assertEqual(texts[0], texts[1], path)
            self.setUp()

    def raw_text(self, path, body, kill):
        text, events = "", 0
        post = urllib.request.Request(URL + path, json.dumps(body).encode(), {"x-api-key": KEY})
        with urllib.request.urlopen(post, timeout=120) as reply:
            for line in reply:
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                self.assertNotIn("error", event)
                text += (event.get("delta") or {}).get("text", "")
                text += "".join(choice.get("text", "") for choice in event.get("choices", []))
                events += 1
                if kill and events == 6:
                    self.kill_busiest()
        return text

    def test_3_whole_answers_are_asked_again(self):
        expected = whole(sdk(), self.long(8))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(whole, sdk(0), self.long(8))
            time.sleep(0.5)
            self.kill_busiest()
            self.assertEqual(answer.result(), expected)

    def test_4_chaos(self):
        numbers = range(12)
        expected, over = self.lone(numbers), threading.Event()
        counts, errors = {"answers": 0, "wrong": 0}, []

        def live(number):
            client, ask = sdk(8), streamed if number % 3 else whole
            while not over.is_set():
                try:
                    counts["answers"] += 1
                    counts["wrong"] += ask(client, request(number)) != expected[number]
                except openai.OpenAIError as error:
                    errors.append(repr(error))

        clients = [threading.Thread(target=live, args=(number,)) for number in numbers]
        for client in clients:
            client.start()
        kills, dice, end = 0, random.Random(1), time.monotonic() + CHAOS_S
        while time.monotonic() < end:
            time.sleep(KILL_EVERY_S)
            if len(programs()) > 1:
                self.kill_one(dice)
                kills += 1
        over.set()
        for client in clients:
            client.join(200)
        print(f"chaos: {kills} replicas killed, {counts}")
        self.assertFalse([client for client in clients if client.is_alive()], "no client hangs")
        self.assertEqual((counts["wrong"], errors), (0, []))
        self.assertGreater(counts["answers"], kills)

    def test_6_the_door_is_not_ready_while_no_replica_of_a_model_runs(self):
        self.assertEqual(self.health(), 200)
        for pid in programs("second"):
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(settles(lambda: self.health() == 503, 30))
        self.assertTrue(settles(lambda: self.health() == 200))

    def test_5_without_resume_a_lost_answer_ends_with_an_error(self):
        deploy(False)
        with self.assertRaisesRegex(openai.APIError, "send the request again"):
            self.lost(sdk(), self.long(7))
        self.setUp()
        self.assertTrue(streamed(sdk(), self.long(7))[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
