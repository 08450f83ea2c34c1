"""A server as a process of this one: starts with `with`, is ready inside of it, and ends with it."""
from __future__ import annotations

import atexit
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Optional, Union

from ._answers import Answer, ForetokenError, Prompt, body_of, post, text_pieces, whole_answer

Flag = Union[str, int, float, bool, list[str], None]
GRACE_S = 60.0  # for answers that still run


class StartError(ForetokenError):
    """The server did not become ready; the message has what it printed."""


def program() -> str:
    """The path of the program: $FORETOKEN, or the one in this package."""
    path = os.environ.get("FORETOKEN") or str(Path(__file__).parent / "bin" / "foretoken")
    if os.access(path, os.X_OK):
        return path
    raise ForetokenError(f"there is no program at {path}; install the wheel again or set FORETOKEN to a program")


def _flags(options: dict[str, Flag]) -> list[str]:
    """slots=4, log_json=True, alias=["a", "b"] -> --slots 4 --log-json --alias a --alias b."""
    words: list[str] = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        values = value if isinstance(value, list) else [value]
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [word for one in values for word in (flag, str(one))]
    return words


class Server:
    """`foretoken serve` on a free port of this machine.

    model         folder of the model; None: the one in this package
    api_key       required of clients if given; this object's own requests send it
    start_s       seconds to load the model and become ready
    options       every flag of `foretoken serve`, with _ for -: slots=4, context=32768, drafter="mtp"
    """

    def __init__(self, model: Union[str, os.PathLike[str], None] = None, *, host: str = "127.0.0.1", port: int = 0,
                 api_key: Optional[str] = None, start_s: float = 600, **options: Flag):
        self._flags = ["--host", host, "--port", str(port), *_flags(options)]
        if model is not None:
            self._flags += ["--model", os.fspath(model)]
        self._api_key, self._start_s = api_key, start_s
        self._process: Optional[subprocess.Popen[str]] = None
        self._errors: Optional[IO[bytes]] = None
        self.url = ""  # http://127.0.0.1:PORT, for clients of Anthropic
        self.model = ""  # its name

    @property
    def base_url(self) -> str:
        """For clients of OpenAI."""
        return f"{self.url}/v1"

    def start(self) -> Server:
        if self._process is not None:
            raise ForetokenError("the server runs already; stop() it first")
        # Not on the command line, where every user of the machine reads it.
        environment = {**os.environ, **({"FORETOKEN_API_KEY": self._api_key} if self._api_key else {})}
        self._errors = tempfile.TemporaryFile()
        self._process = subprocess.Popen([program(), "serve", "--json", *self._flags], stdout=subprocess.PIPE,
                                         stderr=self._errors, env=environment, text=True)
        alarm = threading.Timer(self._start_s, self._process.kill)
        alarm.start()
        facts = self._facts(self._process)
        alarm.cancel()
        if "url" not in facts:
            log = self.log().strip() or f"it was not ready after {self._start_s:g} s"
            self._process.kill()
            self._process.wait()
            self._forget()
            raise StartError(f"foretoken serve did not start: {log}")
        self.url, self.model = facts["url"].rstrip("/"), facts["model"]
        return self

    @staticmethod
    def _facts(process: subprocess.Popen[str]) -> dict[str, Any]:
        """The JSON object that `serve --json` prints when it is ready, on one line or several."""
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text += line
            try:
                facts = json.loads(text)
            except json.JSONDecodeError:
                continue
            return facts if isinstance(facts, dict) else {}
        return {}

    def stop(self) -> int:
        """Ends the server; running answers may finish (option grace). Its exit status, 0 if all went well."""
        if self._process is None:
            return 0
        self._process.terminate()
        try:
            code = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self._forget()
        return code

    def _forget(self) -> None:
        if self._process and self._process.stdout:
            self._process.stdout.close()
        if self._errors:
            self._errors.close()
        self._process, self._errors, self.url = None, None, ""

    def log(self) -> str:
        """The server's output on stderr so far."""
        if self._errors is None:
            return ""
        return os.pread(self._errors.fileno(), 1 << 24, 0).decode(errors="replace")

    def generate(self, prompt: Prompt, *, timeout_s: float = 600, **fields: Any) -> Answer:
        """The answer to a text or a list of messages; fields as in a chat completion (max_tokens, tools ...)."""
        body = body_of(prompt, fields)
        return whole_answer(post(f"{self._ready()}/chat/completions", body, self._api_key, timeout_s))

    def stream(self, prompt: Prompt, *, timeout_s: float = 600, **fields: Any) -> Iterator[str]:
        """The text of the answer, piece by piece."""
        body = {**body_of(prompt, fields), "stream": True}
        return text_pieces(post(f"{self._ready()}/chat/completions", body, self._api_key, timeout_s))

    def _ready(self) -> str:
        if not self.url:
            raise ForetokenError("the server is not running; use it inside of `with`, or call start()")
        return self.base_url

    def __enter__(self) -> Server:
        return self.start()

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()


_kept: dict[str, Server] = {}
_lock = threading.Lock()


def _kept_server(model: Union[str, os.PathLike[str], None]) -> Server:
    """One server for each model, started with its first use and stopped when this process ends."""
    name = "" if model is None else os.fspath(model)
    with _lock:
        if name not in _kept:
            server = Server(model).start()
            atexit.register(server.stop)
            _kept[name] = server
        return _kept[name]


def generate(prompt: Prompt, *, model: Union[str, os.PathLike[str], None] = None, **fields: Any) -> Answer:
    """Server.generate() on a server that the first call starts and the end of this process stops."""
    return _kept_server(model).generate(prompt, **fields)


def stream(prompt: Prompt, *, model: Union[str, os.PathLike[str], None] = None, **fields: Any) -> Iterator[str]:
    """Server.stream() on the server that generate() keeps."""
    return _kept_server(model).stream(prompt, **fields)
