"""A replica: one `foretoken serve` on its node and the way to it. It ends when the program ends, and Ray starts
another; the program ends when the replica does, even by SIGKILL."""
import asyncio
import ctypes
import json
import os
import re
import secrets
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator
from typing import Any, Union

import aiohttp

from .settings import Model

GRACE_S = 600  # a replica that is replaced finishes its answers
KEPT = ("Retry-After", "x-should-retry", "X-Speculation", "request-id", "x-request-id")
PR_SET_PDEATHSIG = 1


class ReplicaFailed(Exception):
    """The program ended or did not finish its answer; another replica may answer."""


class Replica:
    async def __init__(self, model: Model, program: str):
        key, self._stopping, self._waits = secrets.token_hex(16), False, (0.0, 0.0)
        flags = {"host": "127.0.0.1", "port": 0, "alias": model.name, "threads": max(1, int(model.cpus)),
                 **({"model": model.model} if model.model else {}), **model.flags}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [program, "serve", "--json", *words], stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            env={**os.environ, "FORETOKEN_API_KEY": key})
        line = self._process.stdout.readline()  # when it is ready, or says why not
        facts = json.loads(line or "{}")
        if "url" not in facts:
            raise RuntimeError(f"foretoken serve did not start for model {model.name}: {line or 'see its log'}")
        self._session = aiohttp.ClientSession(
            facts["url"], headers={"Authorization": f"Bearer {key}"}, connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=10))
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        self._process.wait()
        if not self._stopping:
            os._exit(1)

    async def answer(self, method: str, path: str, headers: dict[str, str], body: bytes,
                     affinity: list[str], asked: list[Any]) -> AsyncGenerator[Union[dict[str, Any], bytes], None]:
        """First status, headers, type and the first bytes of the program's answer, which saves a message before the
        first token; then its body as it arrives. A caller that leaves closes the connection, which ends the answer in
        the program. `affinity` and `asked` are for the router (routing.py)."""
        try:
            async with self._session.request(method, path, headers=headers, data=body) as reply:
                kept = {name: reply.headers[name] for name in KEPT if name in reply.headers}
                first = await reply.content.readany()
                yield {"status": reply.status, "headers": kept, "media_type": reply.content_type, "body": first}
                async for piece in reply.content.iter_any():
                    yield piece
        except (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError) as error:
            raise ReplicaFailed(str(error)) from None

    async def _get(self, path: str) -> str:
        async with self._session.get(path, timeout=aiohttp.ClientTimeout(total=5)) as reply:
            if reply.status != 200:
                raise RuntimeError(f"{path} answers {reply.status}: {await reply.text()}")
            return await reply.text()

    async def check_health(self) -> None:
        """The program's own: it answers 503 after its backend was lost, and Ray starts another replica."""
        await self._get("/health")

    async def record_routing_stats(self) -> dict[str, Any]:
        """What the router reads: the prefix cache."""
        return json.loads(await self._get("/v1/cache"))

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """The mean wait for a slot since the last call, in seconds."""
        found = dict(re.findall(r"^foretoken_queue_seconds_(sum|count) (\S+)$", await self._get("/metrics"), re.M))
        waits = float(found["sum"]), float(found["count"])
        (seconds, count), self._waits = (new - old for new, old in zip(waits, self._waits)), waits
        return {"queue_s": seconds / count if count else 0.0}

    def __del__(self) -> None:
        self._stopping = True
        if "_process" in self.__dict__:
            self._process.terminate()
            self._process.wait(60)
