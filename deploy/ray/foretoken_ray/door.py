"""The door: checks keys, chooses the model, passes streams, and answers again elsewhere what a replica did not."""
import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException
from ray.serve.handle import DeploymentHandle
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from .replica import ReplicaFailed
from .resume import Different, Replay
from .settings import Settings

logger = logging.getLogger("ray.serve")
PASSED = ("content-type", "accept", "anthropic-version", "anthropic-beta", "x-request-id")
GENERATING = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")
REFUSED = (429, 503, 507, 529)  # its queue is full, no memory for the request, or its backend is lost
LOST = "the replica that answered was lost; send the request again"
OTHER = "the answer could not be continued exactly; send the request again"


def error(status: int, message: str, kind: str, **headers: str) -> JSONResponse:
    """Read by the SDKs of OpenAI and Anthropic; they send a request again after 503."""
    body = {"type": "error", "error": {"message": message, "type": kind, "param": None, "code": None}}
    return JSONResponse(body, status, headers)


def ended(message: str) -> bytes:
    body = {"type": "error", "error": {"type": "overloaded_error", "message": message, "code": "replica_lost"}}
    return b"event: error\ndata: " + json.dumps(body).encode() + b"\n\n"


def prefixes(body: dict[str, Any]) -> list[str]:
    """Names of the prompt's beginnings: what comes before the first message, then one more message each."""
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

    def __init__(self, handle: DeploymentHandle, request: Request, raw: bytes, body: dict[str, Any]):
        headers = {name: request.headers[name] for name in PASSED if name in request.headers}
        self._ask, self._affinity = handle.options(stream=True).answer, prefixes(body)
        self._arguments = (request.method, f"{request.url.path}?{request.url.query}", headers, raw)
        self._asked: list[Any] = []  # the router passes over these and adds the next one

    def may_ask_another(self) -> bool:
        """Whether a replica may be left that was not asked: the router chooses one twice when there is none."""
        return len(set(self._asked)) == len(self._asked)

    async def begin(self) -> dict[str, Any]:
        self._items = self._ask.remote(*self._arguments, affinity=self._affinity, asked=self._asked)
        head = await self._next()
        self._first = head.pop("body")
        return {"status_code": head.pop("status"), **head}

    async def _next(self) -> Any:
        try:
            return await anext(self._items)
        except RayServeException:
            raise
        except RayError as failure:  # the actor died, or ReplicaFailed in it
            raise ReplicaFailed(str(failure).splitlines()[-1]) from None

    async def pieces(self) -> AsyncIterator[bytes]:
        yield self._first
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield await self._next()

    async def events(self) -> AsyncIterator[bytes]:
        """Whole events; a replica that fails in the middle of one sends none of it."""
        waiting = b""
        async for piece in self.pieces():
            *whole, waiting = (waiting + piece).split(b"\n\n")
            for event in whole:
                yield event + b"\n\n"

    def end(self) -> None:
        self._items.cancel()


class Door:
    def __init__(self, settings: Settings, handles: dict[str, DeploymentHandle]):
        self._settings, self._handles, file = settings, handles, settings.api_key_file
        lines = Path(file).read_text(encoding="ascii").split("\n") if file else []
        self._keys = [line.strip().encode() for line in lines if line.strip() and not line.startswith("#")]
        if file and not self._keys:
            raise ValueError(f"{file} has no key; write one a line")

    def _may_enter(self, request: Request) -> bool:
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        key = (request.headers.get("x-api-key") or bearer).encode()
        return not self._keys or any([hmac.compare_digest(key, known) for known in self._keys])

    async def __call__(self, request: Request) -> Response:
        path = request.url.path
        if path == "/health":
            return JSONResponse({"status": "ready"})
        if not self._may_enter(request):
            return error(401, "the API key is unknown; send it as Authorization: Bearer KEY", "authentication_error")
        if path == "/v1/models" and request.method == "GET":
            facts = {"object": "model", "created": 0, "owned_by": "foretoken"}
            return JSONResponse({"object": "list", "data": [{"id": name, **facts} for name in self._handles]})
        raw, body = await request.body(), {}
        with contextlib.suppress(ValueError):  # the program names the mistake
            body = json.loads(raw)
        body = body if isinstance(body, dict) else {}
        name = body.get("model")
        name = name if name and isinstance(name, str) else next(iter(self._handles))
        if name not in self._handles:
            return error(404, f"{name!r} is not served here; use one of {', '.join(self._handles)}", "not_found_error")
        if body and path in GENERATING and body.get("seed") is None:  # else a second answer would be another one
            raw = json.dumps({**body, "seed": random.getrandbits(31)}).encode()
        return await self._answer(Call(self._handles[name], request, raw, body))

    async def _answer(self, call: Call) -> Response:
        for failures in range(1, self._settings.retries + 2):
            try:
                head = await call.begin()
                if head["status_code"] in REFUSED and failures <= self._settings.retries and call.may_ask_another():
                    call.end()
                    continue
                if head["media_type"] == "text/event-stream":
                    return StreamingResponse(self._stream(call), **head)
                return Response(b"".join([piece async for piece in call.pieces()]), **head)
            except RayServeException as busy:
                return error(503, f"no replica takes the request: {busy}", "overloaded_error", **{"Retry-After": "1"})
            except ReplicaFailed as failure:
                await self._wait(failures, failure)
        return error(503, LOST, "server_error", **{"Retry-After": "1"})

    @staticmethod
    async def _wait(failures: int, failure: Exception) -> None:
        logger.warning("foretoken: a replica failed %d times: %s", failures, failure)
        await asyncio.sleep(min(0.1 * 2**failures, 2))

    async def _stream(self, call: Call) -> AsyncIterator[bytes]:
        replay, failures = Replay(), 0
        try:
            while True:
                try:
                    if failures and (await call.begin())["status_code"] != 200:
                        raise ReplicaFailed("the next replica refuses the request")
                    replay.again()
                    async for event in call.events():
                        if not self._settings.resume or (event := replay.next(event)) is not None:
                            yield event
                    return
                except (ReplicaFailed, RayServeException) as failure:
                    failures += 1
                    if not self._settings.resume or failures > self._settings.retries:
                        yield ended(LOST)
                        return
                    await self._wait(failures, failure)
                except Different as difference:
                    logger.error("foretoken: a resumed answer differs: %s", difference)
                    yield ended(OTHER)
                    return
        finally:
            call.end()
