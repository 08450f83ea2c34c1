#!/usr/bin/env python3
"""Without a cluster: a replica around a program that can lose its backend; a door before replicas that refuse; and the
size of the application."""
import asyncio
import pathlib
import stat
import sys
import tempfile
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from foretoken_ray.door import Door  # noqa: E402
from foretoken_ray.replica import Replica  # noqa: E402
from foretoken_ray.routing import PrefixRouter  # noqa: E402
from foretoken_ray.settings import Model, Settings  # noqa: E402
from starlette.requests import Request  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402

# Says what `foretoken serve --json` says. After POST /lose, /health answers 503, as after a lost device.
PROGRAM = """#!{python}
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    lost = False
    def reply(self):
        if self.headers["Authorization"] != "Bearer " + os.environ["FORETOKEN_API_KEY"]:
            return self.send_error(401)
        Handler.lost |= self.path == "/lose"
        body = json.dumps({{"status": "lost" if Handler.lost else "ready"}}).encode()
        self.send_response(503 if Handler.lost and self.path == "/health" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = reply
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({{"url": f"http://127.0.0.1:{{server.server_port}}/"}}), flush=True)
server.serve_forever()
"""


class Health(unittest.TestCase):
    def test_a_lost_backend_is_what_health_checks_see(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "foretoken"
            program.write_text(PROGRAM.format(python=sys.executable), encoding="ascii")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            asyncio.run(self.lose(str(program)))

    async def lose(self, program):
        replica = Replica.__new__(Replica)
        await replica.__init__(Model(name="tiny"), program)
        try:
            await replica.check_health()
            head, *_ = [piece async for piece in replica.answer("POST", "/lose?", {}, b"", [], [])]
            self.assertEqual(head["status"], 200)
            with self.assertRaisesRegex(RuntimeError, "/health answers 503.*lost"):
                await replica.check_health()
            await replica._session.close()
        finally:
            replica.__del__()


class Refusing:
    """Stands for the handle of a deployment: the real router chooses, each replica answers with a status of its own."""

    def __init__(self, statuses):
        self.statuses, self.asked, self.left = statuses, [], 0
        self.router = PrefixRouter.__new__(PrefixRouter)
        self.router._replica_queue_len_cache = {}
        self.router.initialize_state()
        self.replicas = [types.SimpleNamespace(replica_id=name, routing_stats={}) for name in statuses]
        self.answer = types.SimpleNamespace(remote=self.remote)

    def options(self, stream):
        return self

    def remote(self, *arguments, **words):
        return Answer(self, types.SimpleNamespace(kwargs=words))


class Answer:
    def __init__(self, handle, request):
        self.handle, self.request, self.at = handle, request, 0

    async def __anext__(self):
        self.at += 1
        if self.at > 1:
            raise StopAsyncIteration
        ranks = await self.handle.router.choose_replicas(self.handle.replicas, self.request)
        name = ranks[0][0].replica_id
        self.handle.router.on_request_routed(self.request, name, None)
        self.handle.asked.append(name)
        status = self.handle.statuses[name]
        return {"status": status, "headers": {"Retry-After": "1"}, "media_type": "application/json",
                "body": f'{{"from": "{name}"}}'.encode()}

    def cancel(self):
        self.handle.left += 1


class AnotherReplica(unittest.TestCase):
    BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}

    def ask(self, statuses, times=1, retries=5):
        handle = Refusing(statuses)
        door = Door(Settings(models=[Model(name="tiny")], retries=retries), {"tiny": handle})

        async def application(scope, receive, send):
            await (await door(Request(scope, receive)))(scope, receive, send)

        client = TestClient(application)
        for _ in range(times):
            reply = client.post("/v1/chat/completions", json=self.BODY)
        return reply, handle

    def test_it_is_asked_after_each_kind_of_refusal(self):
        for status in (429, 503, 507, 529):
            reply, handle = self.ask({"a": status, "b": 200, "c": 200})
            self.assertEqual((reply.status_code, reply.json()), (200, {"from": "b"}), status)
            self.assertEqual((handle.asked, handle.left), (["a", "b"], 1))

    def test_the_conversation_stays_with_the_one_that_answered(self):
        reply, handle = self.ask({"a": 503, "b": 503, "c": 200}, times=2)
        self.assertEqual(reply.status_code, 200)
        self.assertEqual(handle.asked, ["a", "b", "c", "c"])

    def test_when_all_refuse_the_client_gets_the_refusal(self):
        reply, handle = self.ask({"a": 507, "b": 503})
        self.assertEqual((reply.status_code, reply.headers["Retry-After"]), (503, "1"))
        self.assertEqual(handle.asked, ["a", "b", "b"], "the router has no other: no further attempt")

    def test_the_attempts_are_bounded(self):
        reply, handle = self.ask({name: 503 for name in "abcdefgh"}, retries=2)
        self.assertEqual((reply.status_code, len(handle.asked)), (503, 3))

    def test_what_is_the_clients_mistake_is_asked_once(self):
        reply, handle = self.ask({"a": 400, "b": 200})
        self.assertEqual((reply.status_code, handle.asked), (400, ["a"]))


class Size(unittest.TestCase):
    def test_the_application_has_at_most_400_lines(self):
        files = sorted((HERE / "foretoken_ray").glob("*.py"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        self.assertGreater(len(lines), 0)
        self.assertLessEqual(len(lines), 400, "without blank lines")


if __name__ == "__main__":
    unittest.main(verbosity=0)
