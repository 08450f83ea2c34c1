"""A chat of Open WebUI with a tool, a picture, follow-up tasks (title, tags, questions), web search off, a long
history, and its tasks' own requests. Arguments: the program, the address of the server."""
import base64
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROGRAM, URL = sys.argv[1:3]
PORT = 18232
BASE = f"http://127.0.0.1:{PORT}"
PICTURE = "data:image/png;base64," + base64.b64encode(pathlib.Path("shapes.png").read_bytes()).decode()
TOOL = '''"""
title: Shop
"""
from typing import Literal, Optional


class Tools:
    def find_orders(self, filter: Optional[str] = None, per: Literal["day", "week"] = "day", limit: int = 10) -> str:
        """
        Find orders of the shop.
        :param filter: What to look for.
        :param per: The unit.
        :param limit: How many.
        """
        return "Two orders: 17, 18."
'''
ENVIRONMENT = {
    "DATA_DIR": os.path.join(os.environ["HOME"], "data"), "WEBUI_SECRET_KEY": "secret",
    "OPENAI_API_BASE_URL": URL + "/v1", "OPENAI_API_KEY": "none", "ENABLE_OLLAMA_API": "False",
    "OFFLINE_MODE": "True", "HF_HUB_OFFLINE": "1", "RAG_EMBEDDING_ENGINE": "openai",
    "ENABLE_VERSION_UPDATE_CHECK": "False", "BYPASS_EMBEDDING_AND_RETRIEVAL": "True",
    "ENABLE_PERSISTENT_CONFIG": "False", "DO_NOT_TRACK": "true",
    "ANONYMIZED_TELEMETRY": "False", "ENABLE_AUTOCOMPLETE_GENERATION": "True",
}
token = ""


def post(path, body):
    request = urllib.request.Request(BASE + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", "Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError as error:
        print(path, error.code, error.read()[:400])
        return {}
    return json.loads(text) if text.startswith(("{", "[")) else {"text": text}


def get(path):
    request = urllib.request.Request(BASE + path, headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read())


def wait():
    for _ in range(450):
        try:
            return urllib.request.urlopen(BASE + "/health", timeout=2).read()
        except OSError:
            time.sleep(1)
    raise SystemExit("it did not start")


def chat():
    """Turns of one chat, each with the whole history, as the page sends them."""
    history = []
    chat_id = post("/api/v1/chats/new", {"chat": {"title": "New Chat", "models": ["recorded"], "messages": [],
                                                  "history": {"messages": {}, "currentId": None}}}).get("id")
    picture = [{"type": "text", "text": "Find the orders."}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    for number, content in enumerate((picture, "And now?", "Go on.")):
        history.append({"role": "user", "content": content})
        fields = {"model": "recorded", "messages": history, "stream": True, "chat_id": chat_id,
                  "id": f"answer-{number}", "session_id": "session", "tool_ids": ["shop"],
                  "params": {"function_calling": "native", "temperature": 0.5, "reasoning_effort": "low",
                             "stop": ["END"]},
                  "features": {"web_search": False, "image_generation": False, "code_interpreter": False},
                  "background_tasks": {"title_generation": True, "tags_generation": True,
                                       "follow_up_generation": True}, "stream_options": {"include_usage": True},
                  "user_message": {"id": f"question-{number}", "role": "user", "content": "Find the orders."}}
        print(str(post("/api/chat/completions", fields))[:200])
        time.sleep(8)
        history.append({"role": "assistant", "content": "I have looked at it."})
    # Calls by a prompt: a model without native calls is asked for JSON first.
    fields = {"model": "recorded", "messages": history + [{"role": "user", "content": "Orders?"}], "stream": True,
              "tool_ids": ["shop"], "params": {"function_calling": "default"}}
    print(str(post("/api/chat/completions", fields))[:200])
    print(str(post("/api/chat/completions", {"model": "recorded", "messages": history[:1], "stream": False}))[:200])


def tasks():
    messages = [{"role": "user", "content": "Find the orders."}, {"role": "assistant", "content": "Two orders."}]
    for name in ("title", "tags", "follow_ups", "queries", "emoji", "image_prompt", "auto"):
        body = {"model": "recorded", "messages": messages, "chat_id": "c", "type": "web_search", "prompt": "Find"}
        print(name, str(post(f"/api/v1/tasks/{name}/completions", body))[:120])


def main():
    global token
    port = ["--host", "127.0.0.1", "--port", str(PORT)]
    server = subprocess.Popen([PROGRAM, "serve", *port], env={**os.environ, **ENVIRONMENT},
                              stdout=open("/tmp/open_webui.log", "w"), stderr=subprocess.STDOUT)
    try:
        wait()
        person = {"name": "A", "email": "a@localhost", "password": "Secret-123456"}
        token = post("/api/v1/auths/signup", person)["token"]
        print([model["id"] for model in get("/api/models")["data"]])
        print(str(post("/api/v1/tools/create", {"id": "shop", "name": "Shop", "content": TOOL,
                                                "meta": {"description": "A shop"}}))[:200])
        chat()
        tasks()
    finally:
        server.terminate()
        server.wait()


main()
