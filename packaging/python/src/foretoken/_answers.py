"""Requests to a server over HTTP and their answers, with Python's own library."""
from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import Any, Optional, Union, cast

Message = dict[str, Any]
Prompt = Union[str, Sequence[Message]]


class ForetokenError(Exception):
    """Any failure of foretoken."""


class RequestError(ForetokenError):
    """The server refused a request or ended an answer. `status` is the HTTP status; `param` names the wrong field."""

    def __init__(self, message: str, status: int, param: Optional[str] = None):
        super().__init__(message)
        self.status, self.param = status, param


@dataclass(frozen=True)
class Answer:
    """A whole answer; `raw` is the chat completion as the server sent it."""

    text: str
    reasoning: str
    tool_calls: list[dict[str, Any]]
    finish_reason: str
    usage: dict[str, Any]
    speculation: dict[str, Any]
    raw: dict[str, Any] = field(repr=False)


def body_of(prompt: Prompt, fields: dict[str, Any]) -> dict[str, Any]:
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    return {"messages": messages, **{name: value for name, value in fields.items() if value is not None}}


def post(url: str, body: dict[str, Any], api_key: Optional[str], timeout_s: float) -> HTTPResponse:
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    # The system's proxies are not for a server of this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        return cast(HTTPResponse, opener.open(request, timeout=timeout_s))
    except urllib.error.HTTPError as refused:
        raise _error(refused.read(), refused.code) from None
    except urllib.error.URLError as failure:
        raise RequestError(f"the server at {url} does not answer: {failure.reason}", 0) from None


def _error(body: bytes, status: int) -> RequestError:
    try:
        error = json.loads(body)["error"]
        return RequestError(error["message"], status, error.get("param"))
    except (ValueError, KeyError, TypeError):
        return RequestError(f"the server answered {status}: {body[:200].decode(errors='replace')}", status)


def whole_answer(reply: HTTPResponse) -> Answer:
    with reply:
        raw = json.loads(reply.read())
    choice = raw["choices"][0]
    message = choice["message"]
    return Answer(
        text=message.get("content") or "",
        reasoning=message.get("reasoning_content") or "",
        tool_calls=message.get("tool_calls") or [],
        finish_reason=choice["finish_reason"],
        usage=raw["usage"],
        speculation=raw.get("speculation") or {},
        raw=raw,
    )


def text_pieces(reply: HTTPResponse) -> Iterator[str]:
    """The text of a stream, piece by piece. Closing the iterator ends the answer on the server."""
    with reply:
        for line in reply:
            if not line.startswith(b"data:"):
                continue
            data = line[5:].strip()
            if data == b"[DONE]":
                return
            event = json.loads(data)
            if "error" in event:
                raise _error(data, 500)
            for choice in event["choices"]:
                yield from filter(None, [choice["delta"].get("content")])
    raise RequestError("the stream ended before its last event; send the request again", 0)
