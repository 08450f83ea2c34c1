"""A replica: one `foretoken serve` and the way to it. Each ends with the other, even by SIGKILL; Ray starts another.

Answers do not pass through Ray, where a message costs more than a token of a small model: a gateway gets the program's
address and a key, and reads there. Meanwhile it holds a connection to the replica: Ray Serve counts the request."""
import asyncio
import contextlib
import ctypes
import json
import os
import re
import secrets
import signal
import subprocess
import threading
import weakref
from collections.abc import AsyncGenerator
from typing import Any

import aiohttp
from ray.util import get_node_ip_address

from .settings import Model

GRACE_S = 600  # a replica that is replaced finishes its answers
OPENS_S = 30  # a gateway that takes longer to come is lost
PR_SET_PDEATHSIG = 1


class Replica:
    async def __init__(self, model: Model, program: str):
        key, self._stopping, self._waits = secrets.token_hex(16), False, (0.0, 0.0)
        flags = {"host": get_node_ip_address(), "port": 0, "alias": model.name, "threads": max(1, int(model.cpus)),
                 **({"model": model.model} if model.model else {}), **model.flags}
        words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
        self._process = subprocess.Popen(
            [program, "serve", "--json", *words], stdout=subprocess.PIPE, text=True,
            preexec_fn=lambda: ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL),
            env={**os.environ, "FORETOKEN_API_KEY": key})
        facts = json.loads(self._process.stdout.readline() or "{}")  # when it is ready, or has failed
        if "url" not in facts:
            raise RuntimeError(f"foretoken serve did not start for model {model.name}: {facts or 'see its log'}")
        self._session = aiohttp.ClientSession(facts["url"], headers={"Authorization": f"Bearer {key}"},
                                              timeout=aiohttp.ClientTimeout(total=5))
        self._waiting = weakref.WeakValueDictionary()  # by ticket, while their request runs
        self._holds = await asyncio.start_server(self._hold, flags["host"], 0)
        self._place = {"url": facts["url"].rstrip("/"), "key": key, "holds": self._holds.sockets[0].getsockname()[:2]}
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        code = self._process.wait()
        if not self._stopping:
            os.write(2, f"foretoken: the program ended with {code}\n".encode())  # the worker's log of Ray
            os._exit(1)

    async def answer(self, affinity: list[str], asked: list[Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Where the program is, for one request: the gateway connects to `holds`, sends `ticket` and, after the answer,
        closes that connection, which ends this call. `affinity` and `asked` are for the router (routing.py)."""
        ticket, gateway = secrets.token_hex(16), asyncio.get_running_loop().create_future()
        self._waiting[ticket] = gateway
        yield {**self._place, "ticket": ticket}
        reader, writer = await asyncio.wait_for(gateway, OPENS_S)
        with contextlib.suppress(ConnectionError), contextlib.closing(writer):
            await reader.read()

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (gateway := self._waiting.get((await reader.readline()).decode(errors="replace").strip())) is None:
            return writer.close()
        gateway.set_result((reader, writer))

    async def _get(self, path: str) -> str:
        async with self._session.get(path) as reply:
            if reply.status != 200:
                raise RuntimeError(f"{path} answers {reply.status}: {await reply.text()}")
            return await reply.text()

    async def check_health(self) -> None:
        """The program's own: it answers 503 after its backend was lost, and Ray starts another replica."""
        await self._get("/health")

    async def record_routing_stats(self) -> dict[str, Any]:
        """The prefix cache, for the router."""
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
