from typing import Literal

import dspy

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, CITIES, get_weather, main, run



class Served(dspy.LM):
    """DSPy's catalog does not know the model; these members state the server's features."""
    supports_function_calling = supports_response_schema = True
    supported_params = {"temperature", "max_tokens", "response_format", "tools", "tool_choice"}


lm = Served(f"openai/{MODEL}", api_base=BASE, api_key=KEY, max_tokens=200, cache=False, extra_body=NO_THINKING)


class Ask(dspy.Signature):
    """Name the city."""
    question: str = dspy.InputField()
    city: Literal["Oslo", "Rome"] = dspy.OutputField()


class Use(dspy.Signature):
    """Call the tool."""
    question: str = dspy.InputField()
    tools: list[dspy.Tool] = dspy.InputField()
    calls: dspy.ToolCalls = dspy.OutputField()


def test_an_object():
    with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
        assert dspy.Predict(Ask)(question=QUESTION).city in CITIES


def test_a_call():
    adapter = dspy.JSONAdapter(use_native_function_calling=True)
    with dspy.context(lm=lm.copy(tool_choice="required"), adapter=adapter):
        found = dspy.Predict(Use)(question=QUESTION, tools=[dspy.Tool(get_weather)]).calls
        assert found.tool_calls[0].args["city"] in CITIES, found


def test_a_stream():
    async def answer():
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            listening = dspy.streamify(dspy.Predict(Ask))
            return [one async for one in listening(question=QUESTION)]

    assert run(answer())[-1].city in CITIES


main(globals())
