"""A server that plays scripted answers in the three dialects of the API and keeps each body that it is sent.

    with ScriptedServer([Answer(calls=[("bash", {"command": "ls"})]), Answer(text="Done.")]) as server:
        subprocess.run(["client", "--base-url", server.url, ...])
    server.requests  # [{"path", "headers", "body"}], in the order of arrival

Requests that offer tools take the answers of the script in turn and repeat the last one; requests without
tools (titles, summaries) get `aside`. Standard library only.
"""
import dataclasses
import http.server
import json
import threading

KEPT_HEADERS = ("user-agent", "anthropic-version", "anthropic-beta", "openai-beta", "originator")


@dataclasses.dataclass
class Answer:
    """`calls` are pairs of a name and its arguments: a dictionary, or the text of a custom tool. `tokens` is
    the length of the prompt that usage claims; `status` and `text` make an error."""
    text: str = ""
    reasoning: str = ""
    calls: tuple = ()
    tokens: int = 0
    status: int = 200


def chat_usage(answer):
    return {"prompt_tokens": answer.tokens, "completion_tokens": 20, "total_tokens": answer.tokens + 20,
            "prompt_tokens_details": {"cached_tokens": 0}}


def chat_call(i, call):
    name, arguments = call
    return {"id": f"call_{i:08d}", "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)}}


def whole_chat(answer, body, ids):
    message = {"role": "assistant", "content": answer.text or None}
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [chat_call(next(ids), call) for call in answer.calls]
    return {"id": f"chatcmpl-{next(ids)}", "object": "chat.completion", "created": 1, "model": body.get("model"),
            "choices": [{"index": 0, "message": message, "logprobs": None,
                         "finish_reason": "tool_calls" if answer.calls else "stop"}],
            "usage": chat_usage(answer)}


def streamed_chat(answer, body, ids):
    head = {"id": f"chatcmpl-{next(ids)}", "object": "chat.completion.chunk", "created": 1,
            "model": body.get("model")}

    def chunk(delta, reason=None):
        return None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": "" if answer.text else None})
    if answer.reasoning:
        yield chunk({"reasoning_content": answer.reasoning})
    if answer.text:
        yield chunk({"content": answer.text})
    for i, call in enumerate(answer.calls):
        whole = chat_call(next(ids), call)
        text = whole["function"]["arguments"]
        yield chunk({"tool_calls": [{**whole, "index": i, "function": {**whole["function"], "arguments": ""}}]})
        yield chunk({"tool_calls": [{"index": i, "function": {"arguments": text}}]})
    yield chunk({}, "tool_calls" if answer.calls else "stop")
    yield None, {**head, "choices": [], "usage": chat_usage(answer)}
    yield None, "[DONE]"


def response_items(answer, ids):
    items = []
    if answer.reasoning:
        items.append({"type": "reasoning", "id": f"rs_{next(ids)}", "summary": [],
                      "content": [{"type": "reasoning_text", "text": answer.reasoning}], "encrypted_content": None})
    if answer.text:
        items.append({"type": "message", "id": f"msg_{next(ids)}", "role": "assistant", "status": "completed",
                      "content": [{"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}]})
    for name, arguments in answer.calls:
        number = next(ids)
        item = {"id": f"fc_{number}", "call_id": f"call_{number:08d}", "name": name, "status": "completed"}
        namespace, _, tail = name.rpartition("|")  # "namespace|name"
        if namespace:
            item.update(name=tail, namespace=namespace)
        if name == "tool_search":
            del item["name"]
            item.update(type="tool_search_call", execution="client", arguments=arguments)
        elif isinstance(arguments, str):
            item.update(type="custom_tool_call", input=arguments)
        else:
            item.update(type="function_call", arguments=json.dumps(arguments))
        items.append(item)
    return items


def whole_response(answer, body, ids):
    return {"id": f"resp_{next(ids)}", "object": "response", "created_at": 1, "status": "completed", "error": None,
            "incomplete_details": None, "instructions": body.get("instructions"), "metadata": {},
            "model": body.get("model"), "output": response_items(answer, ids), "parallel_tool_calls": True,
            "temperature": 1.0, "tool_choice": "auto", "tools": body.get("tools") or [], "top_p": 1.0,
            "usage": {"input_tokens": answer.tokens, "input_tokens_details": {"cached_tokens": 0},
                      "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 0},
                      "total_tokens": answer.tokens + 20}}


def streamed_response(answer, body, ids):
    whole = whole_response(answer, body, ids)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    number = iter(range(1000))

    def event(kind, **fields):
        return kind, {"type": kind, "sequence_number": next(number), **fields}

    yield event("response.created", response=begun)
    for i, item in enumerate(whole["output"]):
        yield event("response.output_item.added", output_index=i, item={**item, "status": "in_progress"})
        place = {"item_id": item["id"], "output_index": i}
        if item["type"] == "message":
            part = item["content"][0]
            place["content_index"] = 0
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            yield event("response.output_text.delta", **place, delta=part["text"], logprobs=[])
            yield event("response.output_text.done", **place, text=part["text"], logprobs=[])
            yield event("response.content_part.done", **place, part=part)
        elif item["type"] == "function_call":
            yield event("response.function_call_arguments.delta", **place, delta=item["arguments"])
            yield event("response.function_call_arguments.done", **place, arguments=item["arguments"])
        elif item["type"] == "custom_tool_call":
            yield event("response.custom_tool_call_input.delta", **place, delta=item["input"])
            yield event("response.custom_tool_call_input.done", **place, input=item["input"])
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=whole)


def message_blocks(answer, ids):
    blocks = []
    if answer.reasoning:
        blocks.append({"type": "thinking", "thinking": answer.reasoning, "signature": "c2lnbmF0dXJl"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for name, arguments in answer.calls:
        blocks.append({"type": "tool_use", "id": f"toolu_{next(ids):08d}", "name": name, "input": arguments})
    return blocks


def whole_message(answer, body, ids):
    return {"id": f"msg_{next(ids)}", "type": "message", "role": "assistant", "model": body.get("model"),
            "content": message_blocks(answer, ids), "stop_sequence": None,
            "stop_reason": "tool_use" if answer.calls else "end_turn",
            "usage": {"input_tokens": answer.tokens, "cache_creation_input_tokens": 0,
                      "cache_read_input_tokens": 0, "output_tokens": 20}}


def streamed_message(answer, body, ids):
    whole = whole_message(answer, body, ids)
    yield "message_start", {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for i, block in enumerate(whole["content"]):
        kind = block["type"]
        empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}[kind]
        deltas = {"text": lambda b: [{"type": "text_delta", "text": b["text"]}],
                  "thinking": lambda b: [{"type": "thinking_delta", "thinking": b["thinking"]},
                                         {"type": "signature_delta", "signature": b["signature"]}],
                  "tool_use": lambda b: [{"type": "input_json_delta", "partial_json": json.dumps(b["input"])}]}
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": {**block, **empty}}
        for delta in deltas[kind](block):
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"],
                                                               "stop_sequence": None}, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


WRITERS = {"/chat/completions": (whole_chat, streamed_chat), "/responses": (whole_response, streamed_response),
           "/messages": (whole_message, streamed_message)}


def fault(answer):
    return {"type": "error", "error": {"type": "invalid_request_error", "message": answer.text,
                                       "code": "context_length_exceeded", "param": None}}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen("GET", self, None)
        path = self.path.split("?")[0]
        if path.endswith("/models"):
            one = {"id": self.server.model, "object": "model", "created": 1, "owned_by": "me", "type": "model",
                   "display_name": self.server.model, "created_at": "2026-01-01T00:00:00Z"}
            return self.reply(200, {"object": "list", "data": [one], "has_more": False,
                                    "first_id": one["id"], "last_id": one["id"]})
        return self.reply(404, {"error": {"message": "not found", "type": "not_found_error"}})

    do_HEAD = do_GET

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(data or b"{}")
        except ValueError:
            body = {"unread": len(data)}
        self.server.seen("POST", self, body)
        path = self.path.split("?")[0]
        if path.endswith("count_tokens") or path.endswith("input_tokens"):
            return self.reply(200, {"input_tokens": len(data) // 4})
        for end, (whole, streamed) in WRITERS.items():
            if path.endswith(end):
                return self.play(body, whole, streamed)
        return self.reply(404, {"error": {"message": "not found", "type": "not_found_error"}})

    def play(self, body, whole, streamed):
        answer = self.server.next_answer(body)
        if answer.status != 200:
            return self.reply(answer.status, fault(answer))
        if not answer.tokens:
            answer = dataclasses.replace(answer, tokens=len(json.dumps(body)) // 4)
        if not body.get("stream"):
            return self.reply(200, whole(answer, body, self.server.ids))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for name, data in streamed(answer, body, self.server.ids):
            head = f"event: {name}\n" if name else ""
            text = data if isinstance(data, str) else json.dumps(data)
            self.wfile.write(f"{head}data: {text}\n\n".encode())
        self.close_connection = True
        return None

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *unused):
        pass


class ScriptedServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script, model="recorded", aside=Answer(text="A short answer."), port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.script, self.model, self.aside = list(script), model, aside
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.requests = []
        self.always_plays = False  # also to requests without tools
        self.ids = iter(range(1, 1 << 30))
        self._lock = threading.Lock()

    def seen(self, method, handler, body):
        headers = {name: handler.headers[name] for name in KEPT_HEADERS if handler.headers[name]}
        with self._lock:
            self.requests.append({"method": method, "path": handler.path, "headers": headers, "body": body})

    def next_answer(self, body):
        with self._lock:
            if not self.always_plays and not body.get("tools") and not body.get("functions"):
                return self.aside
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.shutdown()
        self.server_close()
