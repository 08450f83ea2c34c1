from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from weather import BASE, CALLS, KEY, MODEL, NO_THINKING, QUESTION, Weather, check, get_weather, main

model = OpenAILike(model=MODEL, api_base=BASE, api_key=KEY, is_chat_model=True, is_function_calling_model=True,
                   context_window=8192, max_tokens=200, additional_kwargs={"extra_body": NO_THINKING})
TOOL = FunctionTool.from_defaults(get_weather)


def test_a_call():
    answer = model.chat_with_tools([TOOL], QUESTION, tool_required=True)
    calls = model.get_tool_calls_from_response(answer)
    TOOL(**calls[0].tool_kwargs)
    assert CALLS


def test_an_object():
    check(model.as_structured_llm(Weather).complete(QUESTION).raw)


def test_a_stream_joins():
    assert len(list(model.stream_complete(QUESTION))) > 1


main(globals())
