import json

from smolagents import OpenAIServerModel, tool
from smolagents.models import ChatMessage, MessageRole

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, Weather, check, main

model = OpenAIServerModel(MODEL, api_base=BASE, api_key=KEY, max_tokens=200, extra_body=NO_THINKING)
ASKED = [ChatMessage(role=MessageRole.USER, content=[{"type": "text", "text": QUESTION}])]


@tool
def get_weather(city: str, sunny: bool) -> str:
    """Get the weather of a city.

    Args:
        city: The city.
        sunny: Whether to ask for sunshine.
    """
    return "11 degrees"


def test_a_call():
    answer = model.generate(ASKED, tools_to_call_from=[get_weather])
    arguments = answer.tool_calls[0].function.arguments
    found = json.loads(arguments) if isinstance(arguments, str) else arguments
    assert set(found) == {"city", "sunny"} and isinstance(found["sunny"], bool), found


def test_an_object():
    shape = {"type": "json_schema", "json_schema": {"name": "w", "strict": True, "schema": Weather.model_json_schema()}}
    check(json.loads(model.generate(ASKED, response_format=shape).content))


def test_a_stream():
    assert "".join(delta.content or "" for delta in model.generate_stream(ASKED))


main(globals())
