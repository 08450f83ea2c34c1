import anthropic

from weather import CALLS, KEY, MODEL, QUESTION, URL, Weather, check, get_weather, main

client = anthropic.Anthropic(base_url=URL, api_key=KEY)
FIELDS = dict(model=MODEL, max_tokens=200, messages=[{"role": "user", "content": QUESTION}])
TOOL = {"name": "get_weather", "description": "The weather", "input_schema": Weather.model_json_schema()}


def test_a_call_and_its_result():
    answer = client.messages.create(tools=[TOOL], tool_choice={"type": "any"}, **FIELDS)
    call = answer.content[0]
    check(call.input)
    result = {"type": "tool_result", "tool_use_id": call.id, "content": "11 degrees"}
    history = [*FIELDS["messages"], {"role": "assistant", "content": answer.content},
               {"role": "user", "content": [result]}]
    again = client.messages.create(tools=[TOOL], tool_choice={"type": "none"}, **{**FIELDS, "messages": history})
    assert again.content[0].text


def test_parse_gives_an_object():
    check(client.messages.parse(output_format=Weather, **FIELDS).parsed_output)


def test_a_stream_joins_to_its_message():
    with client.messages.stream(tools=[TOOL], tool_choice={"type": "any"}, **FIELDS) as stream:
        kinds = {event.type for event in stream}
        check(stream.get_final_message().content[0].input)
    assert {"input_json", "content_block_stop", "message_stop"} <= kinds, kinds


def test_the_tool_runner_calls_the_tool_and_goes_on():
    tool = anthropic.beta_tool(get_weather)
    runner = client.beta.messages.tool_runner(tools=[tool], max_iterations=2, tool_choice={"type": "any"}, **FIELDS)
    answers = list(runner)
    assert CALLS and len(answers) == 2, answers


def test_a_toolsets_member_is_called_with_its_family():
    with client.beta.messages.stream(tools=[{"type": "computer_toolset_20260801"}],
                                     tool_choice={"type": "tool", "name": "screenshot"}, **FIELDS) as stream:
        call = stream.get_final_message().content[0]
    assert (call.name, call.toolset_name, call.input) == ("screenshot", "computer", {}), call
    result = {"type": "tool_result", "tool_use_id": call.id, "toolset_name": "computer", "content": "Black."}
    history = [*FIELDS["messages"], {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    again = client.beta.messages.create(tools=[{"type": "computer_toolset_20260801"}],
                                        tool_choice={"type": "none"}, **{**FIELDS, "messages": history})
    assert again.content


main(globals())
