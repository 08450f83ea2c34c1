#!/usr/bin/env python3
"""Without a cluster: a replica around a program that can lose its backend; a gateway before replicas that refuse;
and the size of the application."""
import asyncio
import logging
import pathlib
import stat
import sys
import tempfile
import types
import unittest
import unittest.mock

import aiohttp
import httpx2 as httpx
from aiohttp import web

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from foretoken_ray.gateway import Gateway  # noqa: E402
from foretoken_ray.replica import Replica  # noqa: E402
from foretoken_ray.routing import PrefixRouter  # noqa: E402
from foretoken_ray.settings import Model, Settings  # noqa: E402
from starlette.requests import Request  # noqa: E402

# Prints the JSON of `foretoken serve --json`. After POST /lose, /health answers 503, as after a lost device.
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


class Started(unittest.IsolatedAsyncioTestCase):
    """A replica around that program."""

    async def asyncSetUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        program = pathlib.Path(folder) / "foretoken"
        program.write_text(PROGRAM.format(python=sys.executable), encoding="ascii")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.replica = Replica.__new__(Replica)
        await self.replica.__init__(Model(name="tiny"), str(program))

    async def asyncTearDown(self):
        await self.replica._session.close()
        self.replica.__del__()

    async def post(self, place, path, key=None):
        headers = {"Authorization": f"Bearer {key or place['key']}"}
        async with aiohttp.ClientSession() as session, session.post(place["url"] + path, headers=headers) as reply:
            return reply.status

    async def test_a_lost_backend_is_what_health_checks_see(self):
        await self.replica.check_health()
        place = await anext(self.replica.answer([], []))
        self.assertEqual(await self.post(place, "/lose", "another key"), 401)
        await self.replica.check_health()
        self.assertEqual(await self.post(place, "/lose"), 200)
        with self.assertRaisesRegex(RuntimeError, "/health answers 503.*lost"):
            await self.replica.check_health()

    async def test_a_call_lasts_while_its_gateway_holds_the_connection(self):
        call = self.replica.answer([], [])
        place = await anext(call)
        end = asyncio.ensure_future(anext(call, "over"))
        _, hold = await asyncio.open_connection(*place["holds"])
        hold.write(place["ticket"].encode() + b"\n")
        await asyncio.sleep(0.2)
        self.assertFalse(end.done())
        hold.close()
        self.assertEqual(await asyncio.wait_for(end, 10), "over")
        self.assertEqual(len(self.replica._waiting), 0)

    async def test_a_door_that_does_not_come_ends_its_call(self):
        self.enterContext(unittest.mock.patch("foretoken_ray.replica.OPENS_S", 0.1))
        call = self.replica.answer([], [])
        await anext(call)
        with self.assertRaises(asyncio.TimeoutError):
            await anext(call)

    async def test_an_unknown_ticket_is_turned_away(self):
        place = await anext(self.replica.answer([], []))
        reader, stranger = await asyncio.open_connection(*place["holds"])
        stranger.write(b"0123\n")
        self.assertEqual(await asyncio.wait_for(reader.read(), 10), b"")
        stranger.close()


class Replicas:
    """The handle of a deployment, replaced: the real router chooses; the programs answer with a status each, or, where
    it is None, not until the client has left."""

    def __init__(self, statuses):
        self.statuses, self.asked, self.left, self.alone = statuses, [], 0, asyncio.Event()
        self.router = PrefixRouter.__new__(PrefixRouter)
        self.router._replica_queue_len_cache = {}
        self.router.initialize_state()
        self.replicas = [types.SimpleNamespace(replica_id=name, routing_stats={}) for name in statuses]
        self.answer = types.SimpleNamespace(remote=self.remote)

    async def start(self):
        application = web.Application()
        application.router.add_route("*", "/{name}/{path:.*}", self.program)
        self.runner = web.AppRunner(application, handler_cancellation=True)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.holds = await asyncio.start_server(self.hold, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"
        return self

    async def stop(self):
        self.holds.close()
        await self.runner.cleanup()

    async def program(self, request):
        name = request.match_info["name"]
        self.asked.append(name)
        try:
            while self.statuses[name] is None:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.alone.set()
            raise
        return web.json_response({"from": name}, status=self.statuses[name], headers={"Retry-After": "1"})

    async def hold(self, reader, writer):
        await reader.read()
        self.left += 1
        writer.close()

    def options(self, stream):
        return self

    async def remote(self, affinity, asked):
        request = types.SimpleNamespace(kwargs={"affinity": affinity, "asked": asked})
        ranks = await self.router.choose_replicas(self.replicas, request)
        name = ranks[0][0].replica_id
        self.router.on_request_routed(request, name, None)
        yield {"url": f"{self.url}/{name}", "key": "k", "ticket": "t", "holds": self.holds.sockets[0].getsockname()}


class Gateways(unittest.IsolatedAsyncioTestCase):
    BODY = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}

    async def open(self, statuses, retries=5):
        handle, gateway = await Replicas(statuses).start(), Gateway.__new__(Gateway)
        await gateway.__init__(Settings(models=[Model(name="tiny")], retries=retries), {"tiny": handle})
        self.addAsyncCleanup(handle.stop)
        self.addAsyncCleanup(gateway._session.close)

        async def application(scope, receive, send):
            await (await gateway(Request(scope, receive)))(scope, receive, send)

        client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://gateway", timeout=30)
        self.addAsyncCleanup(client.aclose)
        return client, handle

    async def ask(self, statuses, times=1, retries=5):
        client, handle = await self.open(statuses, retries)
        for _ in range(times):
            reply = await client.post("/v1/chat/completions", json=self.BODY)
        while handle.left < len(handle.asked):  # each hold ends
            await asyncio.sleep(0.01)
        return reply, handle

    async def test_another_replica_is_asked_after_each_kind_of_refusal(self):
        for status in (429, 503, 507, 529):
            reply, handle = await self.ask({"a": status, "b": 200, "c": 200})
            self.assertEqual((reply.status_code, reply.json()), (200, {"from": "b"}), status)
            self.assertEqual((handle.asked, handle.left), (["a", "b"], 2))

    async def test_the_conversation_stays_with_the_one_that_answered(self):
        reply, handle = await self.ask({"a": 503, "b": 503, "c": 200}, times=2)
        self.assertEqual(reply.status_code, 200)
        self.assertEqual(handle.asked, ["a", "b", "c", "c"])

    async def test_when_all_refuse_the_client_gets_the_refusal(self):
        reply, handle = await self.ask({"a": 507, "b": 503})
        self.assertEqual((reply.status_code, reply.headers["Retry-After"]), (503, "1"))
        self.assertEqual(handle.asked, ["a", "b", "b"], "the router has no other: no further attempt")

    async def test_the_attempts_are_bounded(self):
        reply, handle = await self.ask({name: 503 for name in "abcdefgh"}, retries=2)
        self.assertEqual((reply.status_code, len(handle.asked)), (503, 3))

    async def test_what_is_the_clients_mistake_is_asked_once(self):
        reply, handle = await self.ask({"a": 400, "b": 200})
        self.assertEqual((reply.status_code, handle.asked), (400, ["a"]))

    async def test_a_client_that_leaves_a_whole_answer_ends_it_in_the_program(self):
        client, handle = await self.open({"a": None})
        waiting = asyncio.ensure_future(client.post("/v1/chat/completions", json=self.BODY))
        while not handle.asked:
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait_for(handle.alone.wait(), 10)
        while not handle.left:
            await asyncio.sleep(0.01)
        self.assertEqual(handle.asked, ["a"])

    async def test_a_model_without_a_replica_answers_503_at_once_and_waits_once_it_has_had_one(self):
        client, handle = await self.open({"a": 200})
        there, answer = asyncio.Event(), handle.answer.remote

        async def remote(**words):
            await there.wait()
            async for item in answer(**words):
                yield item

        handle.answer = types.SimpleNamespace(remote=remote)
        self.enterContext(unittest.mock.patch("foretoken_ray.gateway.running", lambda model: there.is_set()))
        reply = await client.post("/v1/chat/completions", json=self.BODY)
        self.assertEqual((reply.status_code, reply.headers["Retry-After"]), (503, "1"))
        self.assertIn("tiny: no replica runs", reply.json()["error"]["message"])
        there.set()
        self.assertEqual((await client.post("/v1/chat/completions", json=self.BODY)).status_code, 200)
        there.clear()  # it is lost, and another one starts
        waiting = asyncio.ensure_future(client.post("/v1/chat/completions", json=self.BODY))
        await asyncio.sleep(2.5)
        self.assertFalse(waiting.done())
        there.set()
        self.assertEqual((await waiting).status_code, 200)

    async def test_health_names_the_models_that_no_replica_runs(self):
        client, _ = await self.open({"a": 200})
        for running, status in ((1, 200), (0, 503)):
            model = types.SimpleNamespace(replica_states={"RUNNING": running} if running else {"STARTING": 1})
            now = types.SimpleNamespace(applications={"it": types.SimpleNamespace(deployments={"model-tiny": model})})
            with unittest.mock.patch.multiple(
                    "foretoken_ray.gateway.serve", status=lambda: now,
                    get_replica_context=lambda: types.SimpleNamespace(app_name="it")):
                reply = await client.get("/health")
            self.assertEqual(reply.status_code, status)
        self.assertIn("tiny: no replica runs", reply.json()["error"]["message"])


class Size(unittest.TestCase):
    def test_the_application_has_at_most_440_lines(self):
        files = sorted((HERE / "foretoken_ray").glob("*.py"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        self.assertGreater(len(lines), 0)
        self.assertLessEqual(len(lines), 440, "without blank lines")


if __name__ == "__main__":
    logging.getLogger("asyncio").setLevel(logging.ERROR)
    unittest.main(verbosity=0)
