import litellm

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, URL, Weather, check, main

MESSAGES = [{"role": "user", "content": QUESTION}]
FIELDS = dict(model=f"openai/{MODEL}", api_base=BASE, api_key=KEY, messages=MESSAGES, max_tokens=200)
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": Weather.model_json_schema()}}


def test_a_call():
    answer = litellm.completion(tools=[TOOL], tool_choice="required", extra_body=NO_THINKING, **FIELDS)
    check(Weather.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments))


def test_an_object():
    answer = litellm.completion(response_format=Weather, **FIELDS)
    check(Weather.model_validate_json(answer.choices[0].message.content))


def test_a_stream_joins():
    chunks = list(litellm.completion(stream=True, extra_body=NO_THINKING, **FIELDS))
    assert len(chunks) > 2 and litellm.stream_chunk_builder(chunks).choices[0].message.content


def test_its_anthropic_route():
    answer = litellm.completion(**{**FIELDS, "model": f"anthropic/{MODEL}", "api_base": URL}, tools=[TOOL],
                                tool_choice="required")
    check(Weather.model_validate_json(answer.choices[0].message.tool_calls[0].function.arguments))


def test_a_prompt_that_is_too_long_is_told_apart():
    long = [{"role": "user", "content": "word " * 60000}]
    try:
        litellm.completion(**{**FIELDS, "messages": long})
    except litellm.ContextWindowExceededError:
        return
    raise AssertionError("no ContextWindowExceededError")


main(globals())
