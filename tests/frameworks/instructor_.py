from collections.abc import Iterable

import anthropic
import instructor
import openai
from instructor.core import InstructorRetryException

from weather import BASE, KEY, MODEL, NO_THINKING, QUESTION, URL, Weather, check, main

client = openai.OpenAI(base_url=BASE, api_key=KEY)
FIELDS = dict(model=MODEL, messages=[{"role": "user", "content": QUESTION}])
CHAT = dict(max_tokens=200, extra_body=NO_THINKING, **FIELDS)
BOUND = [instructor.Mode.FUNCTIONS, instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT,
         instructor.Mode.JSON_SCHEMA]  # by a grammar
LOOSE = [instructor.Mode.JSON, instructor.Mode.JSON_O1,
         instructor.Mode.MD_JSON]  # the model must follow the prompt, which a small one may not


def test_modes_with_a_grammar_give_the_object():
    for mode in BOUND:
        check(instructor.from_openai(client, mode=mode).create(response_model=Weather, max_retries=1, **CHAT))
    for mode in (instructor.Mode.RESPONSES_TOOLS, instructor.Mode.RESPONSES_TOOLS_WITH_INBUILT_TOOLS):
        patched = instructor.from_openai(client, mode=mode)
        check(patched.create(response_model=Weather, max_retries=1, max_output_tokens=200,
                             reasoning={"effort": "none"}, **FIELDS))


def test_modes_by_prompt_and_their_retries_are_accepted():
    for mode in LOOSE:
        try:
            check(instructor.from_openai(client, mode=mode).create(response_model=Weather, max_retries=2, **CHAT))
        except InstructorRetryException as error:  # by its own check of the object, not by a refusal
            assert not isinstance(error.__cause__, openai.APIError), error
            assert "Error code" not in str(error), error


def test_parallel_calls():
    patched = instructor.from_openai(client, mode=instructor.Mode.PARALLEL_TOOLS)
    required = {**CHAT, "extra_body": {**NO_THINKING, "tool_choice": "required"}}  # the mode itself says auto
    found = list(patched.create(response_model=Iterable[Weather], **required))
    assert found
    for one in found:
        check(one)


def test_partial_objects_are_streamed():
    for mode in BOUND:
        patched = instructor.from_openai(client, mode=mode)
        parts = list(patched.create_partial(response_model=Weather, **CHAT))
        assert parts
        check(parts[-1])


def test_modes_of_anthropic():
    claude = anthropic.Anthropic(base_url=URL, api_key=KEY)
    patched = instructor.from_anthropic(claude, mode=instructor.Mode.ANTHROPIC_TOOLS)
    check(patched.create(response_model=Weather, max_tokens=200, max_retries=1, **FIELDS))
    for mode in (instructor.Mode.ANTHROPIC_JSON, instructor.Mode.JSON_SCHEMA):  # both by a prompt with this SDK
        try:
            loose = instructor.from_anthropic(claude, mode=mode)
            check(loose.create(response_model=Weather, max_tokens=200, max_retries=2, **FIELDS))
        except InstructorRetryException as error:
            assert not isinstance(error.__cause__, anthropic.APIError), error
            assert "Error code" not in str(error), error


main(globals())
