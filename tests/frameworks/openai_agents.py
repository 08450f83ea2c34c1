import agents
import openai

from weather import BASE, CALLS, KEY, MODEL, QUESTION, Weather, check, get_weather, main, run

agents.set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=BASE, api_key=KEY)
MODELS = [agents.OpenAIChatCompletionsModel(MODEL, client), agents.OpenAIResponsesModel(MODEL, client)]


def agent(model, **more):
    settings = agents.ModelSettings(max_tokens=200, reasoning=openai.types.Reasoning(effort="none"),
                                    **({"tool_choice": "required"} if "tools" in more else {}))
    return agents.Agent(name="A", model=model, model_settings=settings, **more)


def test_the_agent_calls_its_tool():
    for model in MODELS:
        CALLS.clear()
        one = agent(model, tools=[agents.function_tool(get_weather)], tool_use_behavior="stop_on_first_tool")
        result = run(agents.Runner.run(one, QUESTION))
        assert CALLS and result.final_output, result


def test_the_output_type_is_kept():
    for model in MODELS:
        check(run(agents.Runner.run(agent(model, output_type=Weather), QUESTION)).final_output)


def test_a_streamed_run_with_a_tool():
    async def answer(model):
        one = agent(model, tools=[agents.function_tool(get_weather)], tool_use_behavior="stop_on_first_tool")
        result = agents.Runner.run_streamed(one, QUESTION)
        return [event.type async for event in result.stream_events()]

    for model in MODELS:
        CALLS.clear()
        assert "run_item_stream_event" in run(answer(model)) and CALLS


main(globals())
