"""LangChain's agents with tools, a picture, a structured answer and a summary of the history: in both dialects of
OpenAI and in Anthropic's. Arguments: the address, and one of chat, responses, messages."""
import base64
import pathlib
import sys
from typing import Literal

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

URL, KIND = sys.argv[1:3]
PICTURE = base64.b64encode(pathlib.Path("shapes.png").read_bytes()).decode()


class Filter(BaseModel):
    """Which orders."""
    unit: Literal["day", "week"] | None = None
    tags: list[str] = []


class Found(BaseModel):
    """How many files there are."""
    files: int


@tool
def list_files(folder: str = ".") -> str:
    """List the files of a folder."""
    return "\n".join(sorted(path.name for path in pathlib.Path(folder).iterdir()))


@tool
def find_orders(filter: Filter, limit: int = 10) -> str:
    """Find orders of the shop."""
    return f"Two orders: 17, 18 ({filter.unit}, {limit})."


@tool
def take_picture() -> list[dict]:
    """Take a picture of the shop."""
    return [{"type": "text", "text": "Here:"},
            {"type": "image", "base64": PICTURE, "mime_type": "image/png"}]


@tool
def broken() -> str:
    """Fail."""
    raise ValueError("absent: no such file")


def model():
    if KIND == "messages":
        return ChatAnthropic(model="recorded", base_url=URL, api_key="none", max_tokens=1000)
    return ChatOpenAI(model="recorded", base_url=URL + "/v1", api_key="none", max_retries=0,
                      use_responses_api=KIND == "responses")


def main():
    summary = SummarizationMiddleware(model=model(), trigger=("messages", 14), keep=("messages", 4))
    agent = create_agent(model(), [list_files, find_orders, take_picture, broken], middleware=[summary],
                         system_prompt="You look after a shop.", checkpointer=InMemorySaver())
    thread = {"configurable": {"thread_id": "1"}, "recursion_limit": 40}
    image = {"type": "image", "base64": PICTURE, "mime_type": "image/png"}
    asked = HumanMessage(content=[{"type": "text", "text": "Look at the project."}, image])
    try:
        agent.invoke({"messages": [asked]}, thread)
    except ValueError as error:
        print(error)
    for text in ("And now?", "Go on."):
        for _ in agent.stream({"messages": [("user", text)]}, thread, stream_mode="messages"):
            pass
    for method in ("json_schema", "function_calling"):
        try:
            model().with_structured_output(Found, method=method).invoke("How many files?")
        except ValueError as error:  # the scripted answer is not an object
            print(error)


main()
