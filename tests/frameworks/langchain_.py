from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, URL, Weather, check, get_weather, main

MODELS = [ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, max_tokens=200, extra_body=NO_THINKING),
          ChatOpenAI(model=MODEL, base_url=BASE, api_key=KEY, max_tokens=200, use_responses_api=True,
                     reasoning={"effort": "none"}),
          ChatAnthropic(model=MODEL, base_url=URL, api_key=KEY, max_tokens=200)]
TOOL = tool(get_weather)


def test_a_call_and_its_result():
    for model in MODELS:
        call = model.bind_tools([TOOL], tool_choice="any").invoke(QUESTION)
        check(call.tool_calls[0]["args"])
        results = [ToolMessage("11 degrees", tool_call_id=one["id"]) for one in call.tool_calls]
        assert model.bind_tools([TOOL]).invoke([("user", QUESTION), call, *results])


def test_structured_outputs():
    for model in MODELS:
        for method in ("json_schema", "function_calling"):
            check(model.with_structured_output(Weather, method=method).invoke(QUESTION))


def test_streams_join():
    for model in MODELS:
        chunks = list(model.stream(QUESTION))
        assert len(chunks) > 1 and "".join(chunk.text for chunk in chunks)
        total = None
        for chunk in model.bind_tools([TOOL], tool_choice="any").stream(QUESTION):
            total = chunk if total is None else total + chunk
        check(total.tool_calls[0]["args"])


def test_a_graph_with_a_tool_runs():
    for model in MODELS:
        graph = create_agent(model, [TOOL])
        assert len(graph.invoke({"messages": [("user", QUESTION)]}, {"recursion_limit": 30})["messages"]) >= 2


main(globals())
