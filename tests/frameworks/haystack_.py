import json

from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, Weather, check, get_weather, main

ASKED = [ChatMessage.from_user(QUESTION)]
TOOL = create_tool_from_function(get_weather)


def generator(**fields):
    return OpenAIChatGenerator(model=MODEL, api_base_url=BASE, api_key=Secret.from_token(KEY),
                               generation_kwargs={"max_tokens": 200, "extra_body": NO_THINKING, **fields})


def test_a_call_and_its_result():
    answer = generator(tool_choice="required").run(ASKED, tools=[TOOL])["replies"][0]
    check(answer.tool_call.arguments)
    result = ChatMessage.from_tool("11 degrees", origin=answer.tool_call)
    assert generator().run([*ASKED, answer, result], tools=[TOOL])["replies"]


def test_an_object():
    check(json.loads(generator(response_format=Weather).run(ASKED)["replies"][0].text))


def test_a_stream():
    seen = []
    answer = generator().run(ASKED, streaming_callback=seen.append)["replies"][0]
    assert answer.text == "".join(chunk.content for chunk in seen)


main(globals())
