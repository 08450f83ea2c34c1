"""The gateway: checks keys, chooses the model, passes streams, and sends an unanswered request to another replica."""
import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector
from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from .resume import Different, Replay
from .settings import Settings

logger = logging.getLogger("ray.serve")
KEPT = ("Retry-After", "x-should-retry", "X-Speculation", "request-id", "x-request-id")
PASSED = ("content-type", "accept", "anthropic-version", "anthropic-beta", "x-request-id")
GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
REFUSED = (429, 503, 507, 529)  # its queue is full, no memory for the request, or its backend is lost
FAILED = (RayError, ClientError, OSError)  # the replica or its program ended
LOST = "the replica that answered was lost; send the request again"
OTHER = "the answer could not be continued exactly; send the request again"


def error(status: int, message: str, kind: str) -> JSONResponse:
    """Read by the SDKs of OpenAI and Anthropic; they send a request again after 503."""
    body = {"type": "error", "error": {"message": message, "type": kind, "param": None, "code": None}}
    return JSONResponse(body, status, {"Retry-After": "1"} if status == 503 else None)


def ended(message: str) -> bytes:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": message, "code": "replica_lost"}}
    return b"event: error\ndata: " + json.dumps(body).encode() + b"\n\n"


class NoReplica(Exception):
    """No replica of a model runs."""


def running(model: str) -> bool:
    """By Serve's controller."""
    found = serve.status().applications[serve.get_replica_context().app_name].deployments.get(f"model-{model}")
    return bool(found and found.replica_states.get("RUNNING"))


def health(settings: Settings) -> JSONResponse:
    """Ready while each model that should have a replica has one."""
    absent = ", ".join(one.name for one in settings.models if one.replicas.least and not running(one.name))
    return error(503, f"{absent}: no replica runs", "overloaded_error") if absent else JSONResponse({"status": "ready"})


def prefixes(body: dict[str, Any]) -> list[str]:
    """Names of the prompt's prefixes: the part before the first message, then one message more each."""
    parts = body.get("messages") or body.get("input") or body.get("prompt") or ""
    if not (isinstance(parts, list) and all(isinstance(part, dict) for part in parts)):
        text = json.dumps(parts)
        parts = [{"text": text[at:at + 1024]} for at in range(0, len(text), 1024)]
    # Instructions and tools alone do not name a home: all conversations share them.
    shared = [body.get(name) for name in ("model", "system", "instructions", "tools")]
    digest, names = hashlib.blake2b(json.dumps(shared).encode(), digest_size=12), []
    for part in parts:
        digest.update(json.dumps(part).encode())
        if part.get("role") not in ("system", "developer"):
            names.append(digest.hexdigest())
    return names


class Call:
    """One request to the replicas of a model, and to another replica if one fails or refuses it."""

    def __init__(self, handle: DeploymentHandle, session: ClientSession, request: Request, raw: bytes, body: dict,
                 model: str, wait_s: float):
        self._model, self._wait_s = model, wait_s
        self._ask, self._affinity, self._session = handle.options(stream=True).answer, prefixes(body), session
        self._headers = {name: request.headers[name] for name in PASSED if name in request.headers}
        self._method, self._path, self._raw = request.method, f"{request.url.path}?{request.url.query}", raw
        self.asked: list[Any] = []  # the router passes over these and adds the next: one twice if all were asked
        self._opened = contextlib.ExitStack()

    async def begin(self) -> dict[str, Any]:
        """Status, headers and type of the answer. A replica returns the address of its program, which answers."""
        self.close()
        items = self._ask.remote(affinity=self._affinity, asked=self.asked)
        place = await self._first(items)
        self._opened.callback(lambda: asyncio.gather(anext(items, None), return_exceptions=True))  # to its end
        _, hold = await asyncio.open_connection(*place["holds"])
        self._opened.callback(hold.close)
        hold.write(place["ticket"].encode() + b"\n")
        headers = {**self._headers, "Authorization": f"Bearer {place['key']}"}
        reply = await self._session.request(self._method, place["url"] + self._path, data=self._raw, headers=headers)
        self._opened.callback(reply.close)
        self.reply, kept = reply, {name: reply.headers[name] for name in KEPT if name in reply.headers}
        return {"status_code": reply.status, "headers": kept, "media_type": reply.content_type}

    async def _first(self, items: Any) -> dict[str, Any]:
        """From a replica that is free; NoReplica after `wait_s` in which none ran."""
        place, since = asyncio.ensure_future(anext(items)), time.monotonic()
        try:
            while not (await asyncio.wait({place}, timeout=1))[0]:
                if await asyncio.to_thread(running, self._model):
                    since = time.monotonic()
                elif time.monotonic() - since >= self._wait_s:
                    raise NoReplica(f"{self._model}: no replica runs; send the request again later")
            return place.result()
        finally:
            place.cancel()

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Whole events, joined if several have arrived; a replica that fails within an event sends none of it."""
        waiting = b""
        async for piece in self.reply.content.iter_any():
            *whole, waiting = (waiting + piece).split(b"\n\n")
            yield [event + b"\n\n" for event in whole]

    def close(self) -> None:
        """Leaves the program, which ends an answer that is not complete, and lets the replica's call end."""
        self._opened.close()


async def wait(failures: int, failure: Exception) -> None:
    logger.warning("foretoken: replicas failed %d times: %s", failures, f"{type(failure)} {failure}".splitlines()[-1])
    await asyncio.sleep(min(0.1 * 2**failures, 2))


class Gateway:
    async def __init__(self, settings: Settings, handles: dict[str, DeploymentHandle]):
        self._settings, self._handles, file = settings, handles, settings.api_key_file
        lines = Path(file).read_text(encoding="ascii").split("\n") if file else []
        self._keys = [line.strip().encode() for line in lines if line.strip() and not line.startswith("#")]
        if file and not self._keys:
            raise ValueError(f"{file} has no key; write one a line")
        # Models that have had a replica, or begin with none: their requests wait for it.
        self._begun = {one.name for one in settings.models if not one.replicas.least}
        self._session = ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(sock_connect=10))

    def _may_enter(self, request: Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        key = (request.headers.get("x-api-key") or bearer).encode()
        return not self._keys or any([hmac.compare_digest(key, known) for known in self._keys])

    async def __call__(self, request: Request) -> Response:
        path = request.url.path
        if path == "/health":
            return await asyncio.to_thread(health, self._settings)
        if not self._may_enter(request):
            return error(401, "the API key is unknown; send it as Authorization: Bearer KEY", "authentication_error")
        if path == "/v1/models" and request.method == "GET":
            facts = {"object": "model", "created": 0, "owned_by": "foretoken"}
            return JSONResponse({"object": "list", "data": [{"id": name, **facts} for name in self._handles]})
        raw, body = await request.body(), {}
        with contextlib.suppress(ValueError):  # the program names the mistake
            body = json.loads(raw)
        body = body if isinstance(body, dict) else {}
        name = str(body.get("model") or next(iter(self._handles)))
        if name not in self._handles:
            return error(404, f"{name!r} is not served here; use one of {', '.join(self._handles)}", "not_found_error")
        if body and path in GENERATING and body.get("seed") is None:  # without one a second answer would differ
            raw = json.dumps({**body, "seed": random.getrandbits(31)}).encode()
        wait_s = self._settings.start_s if name in self._begun else 0
        return await self._answer(Call(self._handles[name], self._session, request, raw, body, name, wait_s), name)

    async def _answer(self, call: Call, model: str) -> Response:
        with contextlib.ExitStack() as leaving:
            leaving.callback(call.close)
            for failures in range(1, self._settings.retries + 2):
                try:
                    head = await call.begin()
                    self._begun.add(model)
                    more = failures <= self._settings.retries and len(set(call.asked)) == len(call.asked)
                    if head["status_code"] in REFUSED and more:
                        continue
                    if head["media_type"] == "text/event-stream":
                        leaving.pop_all()  # the stream closes it
                        return StreamingResponse(self._stream(call), **head)
                    return Response(await call.reply.read(), **head)
                except NoReplica as absent:
                    return error(503, str(absent), "overloaded_error")
                except RayServeException as busy:
                    return error(503, f"no replica takes the request: {busy}", "overloaded_error")
                except FAILED as failure:
                    await wait(failures, failure)
            return error(503, LOST, "server_error")

    async def _stream(self, call: Call) -> AsyncIterator[bytes]:
        replay, failures = Replay(), 0
        try:
            while True:
                try:
                    if failures and (await call.begin())["status_code"] != 200:
                        raise ConnectionError("the next replica refuses the request")
                    replay.again()
                    async for events in call.events():
                        if self._settings.resume:
                            events = [new for event in events if (new := replay.next(event)) is not None]
                        if events:
                            yield b"".join(events)
                    return
                except (*FAILED, RayServeException, NoReplica) as failure:
                    failures += 1
                    if not self._settings.resume or failures > self._settings.retries:
                        yield ended(LOST)
                        return
                    await wait(failures, failure)
                except Different as difference:
                    logger.error("foretoken: a resumed answer differs: %s", difference)
                    yield ended(OTHER)
                    return
        finally:
            call.close()
