"""The sessions of the programs from PyPI: see sessions.py. Libraries and servers are driven by the scripts in
drivers/."""
import pathlib

from scripted_server import Answer

DRIVERS = pathlib.Path(__file__).resolve().with_name("drivers")
ANOTHER = Answer(text="I have looked at it. ☕")
ORDERS = {"filter": None, "per": "day"}


def langchain(place, program):
    """`program` is the Python that has LangChain."""
    work = [
        Answer(reasoning="I list the files.", text="Listing.", calls=[("list_files", {"folder": "."})]),
        Answer(calls=[("find_orders", {"filter": {"unit": "day"}, "limit": 3}), ("take_picture", {})]),
        ANOTHER,
        Answer(calls=[("list_files", {}), ("find_orders", {"filter": {}})]),
        Answer(calls=[("find_orders", {"filter": "wrong"})]),
        ANOTHER,
        Answer(calls=[("list_files", {})]),
        Answer(calls=[("list_files", {})]),
        Answer(calls=[("list_files", {})]),
        ANOTHER,
    ]
    for kind in ("chat", "responses", "messages"):
        yield kind, [(work, [program, DRIVERS / "langchain_agent.py", "{url}", kind], {})]


def litellm(place, program):
    """`program` is the proxy's executable; the driver runs in the Python next to it."""
    call = Answer(reasoning="I look for orders.", text="Looking.", calls=[("find_orders", ORDERS)])
    work = [call, ANOTHER] * 12
    driver = [program.with_name("python"), DRIVERS / "litellm_proxy.py", program, "{url}"]
    yield "proxy", [(work, driver, {"LITELLM_LOCAL_MODEL_COST_MAP": "True",
                                    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true"})]


EDIT = """I change it.

notes.txt
```
<<<<<<< SEARCH
The first note.
=======
The 1st note.
>>>>>>> REPLACE
```
"""
AIDER_MODEL = {
    "openai/recorded": {"max_tokens": 8000, "max_input_tokens": 100000, "max_output_tokens": 8000, "mode": "chat",
                        "input_cost_per_token": 0, "output_cost_per_token": 0, "litellm_provider": "openai",
                        "supports_vision": True}
}


def aider(place, program):
    place.write("models.json", AIDER_MODEL)
    base = [program, "--model", "openai/recorded", "--openai-api-base", "{url}/v1", "--openai-api-key", "none",
            "--model-metadata-file", place.home / "models.json", "--yes-always", "--no-check-update", "--no-gitignore",
            "--analytics-disable", "--no-show-model-warnings", "--map-tokens", "1024"]

    def step(script, *arguments):
        return script, [*base, *arguments], {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}

    edit = Answer(reasoning="A short edit.", text=EDIT)
    yield "edits", [
        step([edit, ANOTHER], "--edit-format", "diff", "--message", "Change the first note.", "notes.txt"),
        step([ANOTHER], "--edit-format", "whole", "--message", "And now?", "--restore-chat-history", "add.py"),
        step([ANOTHER], "--message", "What is in the picture?", "shapes.png", "--restore-chat-history",
             "--max-chat-history-tokens", "64"),
        step([ANOTHER], "--architect", "--message", "Plan a change.", "--no-stream", "add.py"),
        step([ANOTHER], "--chat-mode", "ask", "--message", "Why?", "--reasoning-effort", "high", "add.py"),
    ]


def open_webui(place, program):
    """`program` is its executable; the driver runs in the Python next to it."""
    driver = [program.with_name("python"), DRIVERS / "open_webui.py", program, "{url}"]
    call = Answer(reasoning="I look for orders.", text="Looking.", calls=[("find_orders", ORDERS)])
    yield "chat", [([call, ANOTHER, call, ANOTHER], driver, {})]


def goose(place, program):
    """`program` is the Python that has goose-sdk."""
    call = Answer(text="Looking.", calls=[("shop__find_orders", ORDERS)])
    for kind in ("openai", "anthropic"):
        yield kind, [([call, ANOTHER], [program, DRIVERS / "goose_provider.py", "{url}", kind], {})]


def n8n(place, program):
    """`program` is n8n's executable in node_modules/.bin."""
    work = [
        Answer(reasoning="I look for orders.", text="Looking.", calls=[("Find_orders", {"filter": None, "limit": 3})]),
        Answer(calls=[("format_final_json_response", {"output": {"files": 3}})]),
        ANOTHER,
    ]
    driver = ["node", DRIVERS / "n8n_agent.cjs", program.parents[1], "{url}"]
    for kind in ("openai", "responses", "anthropic"):
        yield kind, [(work * 2, [*driver, kind], {"LANGCHAIN_TRACING_V2": "false"})]


ALL = {"aider": aider, "goose": goose, "langchain": langchain, "litellm": litellm, "n8n": n8n,
       "open-webui": open_webui}
