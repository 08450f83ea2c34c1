import openai

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, Weather, check, main

client = openai.OpenAI(base_url=BASE, api_key=KEY)
MESSAGES = [{"role": "user", "content": QUESTION}]


def test_parse_gives_a_call_with_parsed_arguments():
    tool = openai.pydantic_function_tool(Weather)
    answer = client.chat.completions.parse(model=MODEL, messages=MESSAGES, tools=[tool], tool_choice="required",
                                           max_tokens=200, extra_body=NO_THINKING)
    check(answer.choices[0].message.tool_calls[0].function.parsed_arguments)


def test_parse_gives_an_object():
    answer = client.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Weather, max_tokens=200)
    check(answer.choices[0].message.parsed)


def test_a_chat_stream_ends_with_the_parsed_object():
    with client.chat.completions.stream(model=MODEL, messages=MESSAGES, response_format=Weather,
                                        max_tokens=200) as stream:
        assert [event for event in stream if event.type == "content.delta"]
        check(stream.get_final_completion().choices[0].message.parsed)


def test_responses_parse_gives_an_object():
    answer = client.responses.parse(model=MODEL, input=QUESTION, text_format=Weather, max_output_tokens=200)
    check(answer.output_parsed)


def test_a_responses_stream_gives_calls_and_the_next_turn_takes_their_output():
    tool = {"type": "function", "name": "get_weather", "strict": True,
            "parameters": openai.pydantic_function_tool(Weather)["function"]["parameters"]}
    fields = dict(model=MODEL, tools=[tool], reasoning={"effort": "none"}, max_output_tokens=200)
    with client.responses.stream(input=QUESTION, tool_choice="required", **fields) as stream:
        seen = [event.type for event in stream]
        answer = stream.get_final_response()
    assert "response.function_call_arguments.delta" in seen and seen[-1] == "response.completed", seen
    calls = [item for item in answer.output if item.type == "function_call"]
    outputs = [{"type": "function_call_output", "call_id": call.call_id, "output": "11 degrees"} for call in calls]
    assert calls
    after = client.responses.create(previous_response_id=answer.id, input=outputs, tool_choice="none", **fields)
    assert after.output_text


def test_a_namespaces_tool_is_called_by_both_of_its_names():
    inner = {"type": "function", "name": "get_weather", "parameters": Weather.model_json_schema()}
    fields = dict(model=MODEL, reasoning={"effort": "none"}, max_output_tokens=200, tool_choice="required",
                  tools=[{"type": "namespace", "name": "crm", "description": "A shop's.", "tools": [inner]}])
    with client.responses.stream(input=QUESTION, **fields) as stream:
        for _ in stream:
            pass
        answer = stream.get_final_response()
    call = answer.output[0]
    assert (call.namespace, call.name) == ("crm", "get_weather"), call
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "11 degrees"}
    again = client.responses.create(input=[{"role": "user", "content": QUESTION}, call.to_dict(), output], **fields)
    assert again.output[0].namespace == "crm"


def test_the_clients_own_tools_get_their_items():
    for tool, kind in (({"type": "local_shell"}, "local_shell_call"), ({"type": "apply_patch"}, "apply_patch_call"),
                       ({"type": "shell", "environment": {"type": "local"}}, "shell_call"),
                       ({"type": "tool_search", "execution": "client"}, "tool_search_call")):
        answer = client.responses.create(model=MODEL, input="Delete a.", tools=[tool], reasoning={"effort": "none"},
                                         tool_choice="required", parallel_tool_calls=False, temperature=0,
                                         max_output_tokens=400)
        kinds = {item.type for item in answer.output}
        assert kinds == {kind} or (answer.status == "incomplete" and not kinds), (kind, answer)


main(globals())
