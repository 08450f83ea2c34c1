import json

from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, Weather, check, get_weather, main, run

INFO = {"vision": True, "function_calling": True, "json_output": True, "family": "unknown", "structured_output": True}
ASKED = [UserMessage(content=QUESTION, source="user")]
TOOL = FunctionTool(get_weather, description="The weather")


def client():
    return OpenAIChatCompletionClient(model=MODEL, base_url=BASE, api_key=KEY, model_info=INFO, max_tokens=200)


def test_a_call_and_its_result():
    async def answer():
        model = client()
        called = await model.create(ASKED, tools=[TOOL], tool_choice="required",
                                    extra_create_args={"extra_body": NO_THINKING})
        call = called.content[0]
        text = await TOOL.run_json(json.loads(call.arguments), CancellationToken())
        result = FunctionExecutionResult(content=str(text), name=call.name, call_id=call.id, is_error=False)
        history = [*ASKED, AssistantMessage(content=called.content, source="a"),
                   FunctionExecutionResultMessage(content=[result])]
        return await model.create(history, tools=[TOOL])

    assert run(answer()).content


def test_an_object():
    check(json.loads(run(client().create(ASKED, json_output=Weather)).content))


def test_a_stream():
    async def answer():
        return [one async for one in client().create_stream(ASKED)]

    found = run(answer())
    assert "".join(found[:-1]) == found[-1].content


main(globals())
