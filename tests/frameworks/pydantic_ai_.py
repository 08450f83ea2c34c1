from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from weather import BASE, CALLS, KEY, MODEL, NO_THINKING, QUESTION, URL, Weather, check, get_weather, main, run

PROVIDER = OpenAIProvider(base_url=BASE, api_key=KEY)
MODELS = [OpenAIChatModel(MODEL, provider=PROVIDER), OpenAIResponsesModel(MODEL, provider=PROVIDER)]
CLAUDE = AnthropicModel(MODEL, provider=AnthropicProvider(base_url=URL, api_key=KEY))
SETTINGS = {"max_tokens": 200, "extra_body": NO_THINKING}


def test_an_output_function_is_called():
    for model in [*MODELS, CLAUDE]:
        CALLS.clear()
        Agent(model, output_type=[get_weather], model_settings=SETTINGS).run_sync(QUESTION)
        assert CALLS


def test_outputs_by_tool_and_by_format():
    for model in MODELS:
        for kind in (ToolOutput, NativeOutput):
            check(Agent(model, output_type=kind(Weather), model_settings=SETTINGS).run_sync(QUESTION).output)
    check(Agent(CLAUDE, output_type=ToolOutput(Weather), model_settings=SETTINGS).run_sync(QUESTION).output)


def test_streams():
    async def answer(model, kind):
        async with Agent(model, output_type=kind, model_settings=SETTINGS).run_stream(QUESTION) as stream:
            return await stream.get_output()

    for model in MODELS:
        assert run(answer(model, str))
        check(run(answer(model, NativeOutput(Weather))))
        check(run(answer(model, ToolOutput(Weather))))


main(globals())
