"""OpenAI's Python SDK against the real server: chat completions, tools, structured answers.

    FORETOKEN=build/release/foretoken tools/sdk_test tests/server/openai_chat_test.py [-v] [Class.test]
"""
import json
import unittest

import openai
from pydantic import BaseModel

from openai_fixture import WEATHER, OpenAiTest, user

CLOCK = {
    "type": "function",
    "function": {
        "name": "get_time",
        "description": "The time in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class Chat(OpenAiTest):
    def test_an_answer_has_every_part(self):
        answer = self.ask(temperature=0)
        self.assertTrue(answer.id.startswith("chatcmpl-"))
        self.assertEqual(answer.object, "chat.completion")
        choice = answer.choices[0]
        self.assertEqual(choice.message.role, "assistant")
        self.assertIn(choice.finish_reason, ("stop", "length"))
        usage = answer.usage
        self.assertEqual(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens)
        self.assertLessEqual(usage.completion_tokens, 24)
        details = usage.completion_tokens_details
        self.assertEqual(details.accepted_prediction_tokens, answer.speculation["accepted"])
        self.assertEqual(details.rejected_prediction_tokens,
                         answer.speculation["drafted"] - answer.speculation["accepted"])

    def test_a_stream_joins_to_the_whole_answer(self):
        whole = self.ask(temperature=0)
        text, roles, reasons, usages, ids = "", 0, [], [], set()
        for chunk in self.ask(temperature=0, stream=True, stream_options={"include_usage": True}):
            ids.add(chunk.id)
            if chunk.usage is not None:
                usages.append(chunk.usage)
                self.assertEqual(chunk.choices, [])
                continue
            delta = chunk.choices[0].delta
            roles += delta.role is not None
            text += delta.content or ""
            if chunk.choices[0].finish_reason:
                reasons.append(chunk.choices[0].finish_reason)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual((roles, len(ids), len(usages)), (1, 1, 1))
        self.assertEqual(reasons, [whole.choices[0].finish_reason])
        self.assertEqual(usages[0].total_tokens, whole.usage.total_tokens)

    def test_without_include_usage_no_chunk_is_without_choices(self):
        for chunk in self.ask(stream=True, max_tokens=4):
            self.assertEqual(len(chunk.choices), 1)
            self.assertIsNone(chunk.usage)

    def test_the_stream_helper_ends_with_a_whole_completion(self):
        with self.client.chat.completions.stream(model=self.model, messages=user("Hi"), max_tokens=200) as stream:
            for _ in stream:
                pass
            final = stream.get_final_completion()
        self.assertIn(final.choices[0].finish_reason, ("stop", "length"))

    def test_roles_and_contents_in_all_their_forms(self):
        answer = self.client.chat.completions.create(
            model=self.model, max_completion_tokens=4,
            messages=[
                {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
                {"role": "user", "content": [{"type": "text", "text": "Weather"}, {"type": "text", "text": "?"}]},
                {"role": "assistant", "content": None, "tool_calls": [
                    {"id": "c1", "type": "function",
                     "function": {"name": "get_weather", "arguments": "{\"city\": \"Oslo\", \"days\": 1}"}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "cold"},
            ], tools=[WEATHER])
        self.assertLessEqual(answer.usage.completion_tokens, 4)

    def test_n_answers_equal_lone_ones_with_the_following_seeds(self):
        several = self.ask("Tell a story.", n=3, seed=11, temperature=1)
        self.assertEqual([choice.index for choice in several.choices], [0, 1, 2])
        for i, choice in enumerate(several.choices):
            lone = self.ask("Tell a story.", seed=11 + i, temperature=1)
            self.assertEqual(lone.choices[0].message.content, choice.message.content)

    def test_the_same_seed_gives_the_same_answer_with_and_without_speculation(self):
        texts = {self.ask("Tell a story.", seed=5, temperature=1, extra_body={"speculation": mode}, max_tokens=48)
                 .choices[0].message.content for mode in ("auto", "off", "auto")}
        self.assertEqual(len(texts), 1)
        self.assertNotEqual(texts, {self.ask("Tell a story.", seed=6, temperature=1, max_tokens=48)
                                    .choices[0].message.content})

    def test_a_stop_text_ends_the_answer_and_is_not_in_it(self):
        whole = self.ask("Write a poem about rivers.", temperature=0, max_tokens=40).choices[0].message.content
        stop = whole[len(whole) // 2:len(whole) // 2 + 3]
        cut = self.ask("Write a poem about rivers.", temperature=0, max_tokens=40, stop=[stop]).choices[0]
        self.assertEqual(cut.finish_reason, "stop")
        self.assertEqual(cut.message.content, whole[:whole.index(stop)])

    def test_held_back_stop_text_is_given_when_the_length_ends_the_answer(self):
        whole = self.ask("Write a poem about rivers.", temperature=0, max_tokens=12).choices[0].message.content
        stop = whole[-2:] + "\x01never"  # its beginning is held back to the last
        chunks = self.ask("Write a poem about rivers.", temperature=0, max_tokens=12, stop=stop, stream=True)
        self.assertEqual("".join(chunk.choices[0].delta.content or "" for chunk in chunks), whole)

    def test_logprobs_cover_every_token_once_streamed_and_whole(self):
        fields = dict(temperature=0, logprobs=True, top_logprobs=2, max_tokens=20)
        whole = self.ask(**fields)
        tokens = whole.choices[0].logprobs.content
        self.assertIn(len(tokens), (whole.usage.completion_tokens, whole.usage.completion_tokens - 1))
        for token in tokens:
            self.assertEqual(len(token.top_logprobs), 2)
            self.assertEqual(token.logprob, token.top_logprobs[0].logprob)  # the likeliest was taken
            self.assertEqual(bytes(token.bytes).decode("utf-8", "replace"), token.token)
        streamed = []
        for chunk in self.ask(stream=True, **fields):
            if chunk.choices[0].logprobs is not None:
                streamed += chunk.choices[0].logprobs.content
        self.assertEqual(streamed, tokens)

    def test_unicode_is_never_cut_across_chunks(self):
        bias = {}  # tokens that are parts of characters, so that answers are full of them
        for text in ("日本語", "😀🎉", "Ünï"):
            ids = self.ids(text)
            bias.update({str(token): 40 for token in ids})
        fields = dict(seed=3, temperature=1, logit_bias=bias, max_tokens=40)
        whole = self.ask("Say something.", **fields).choices[0].message.content
        pieces = [chunk.choices[0].delta.content or ""
                  for chunk in self.ask("Say something.", stream=True, **fields)]
        self.assertEqual("".join(pieces), whole)
        self.assertFalse(whole.isascii())

    def test_the_prediction_changes_no_token(self):
        plain = self.ask(temperature=0, max_tokens=32).choices[0].message.content
        predicted = self.ask(temperature=0, max_tokens=32, prediction={"type": "content", "content": plain})
        self.assertEqual(predicted.choices[0].message.content, plain)

    def test_unknown_fields_are_ignored(self):
        answer = self.ask(max_tokens=2, user="u", metadata={"a": "b"}, store=False, service_tier="auto",
                     extra_body={"who_knows": {"deep": [1]}})
        self.assertEqual(len(answer.choices), 1)


class Tools(OpenAiTest):
    """A grammar enforces a required tool, so even the small model calls it."""

    def call(self, **fields):
        return self.ask("What is the weather in Oslo for 3 days?", tools=[WEATHER, CLOCK], **{"seed": 1,
            "max_tokens": 200, "tool_choice": "required", **fields})

    def check(self, call):
        self.assertIn(call.function.name, ("get_weather", "get_time"))
        arguments = json.loads(call.function.arguments)
        self.assertIsInstance(arguments["city"], str)

    def test_a_required_call_is_valid(self):
        choice = self.call().choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls")
        self.assertTrue(choice.message.tool_calls)
        for call in choice.message.tool_calls:
            self.check(call)

    def test_a_named_tool_alone_is_called(self):
        choice = self.call(tool_choice={"type": "function", "function": {"name": "get_time"}},
                           parallel_tool_calls=False).choices[0]
        self.assertEqual([call.function.name for call in choice.message.tool_calls], ["get_time"])

    def test_not_parallel_is_one_call(self):
        for seed in range(3):
            choice = self.call(parallel_tool_calls=False, seed=seed, temperature=1).choices[0]
            self.assertEqual(len(choice.message.tool_calls), 1)

    def test_streamed_pieces_join_to_the_whole_call(self):
        whole = self.call(temperature=0).choices[0].message.tool_calls
        calls, reason = {}, None
        for chunk in self.call(temperature=0, stream=True):
            for piece in chunk.choices[0].delta.tool_calls or []:
                if piece.index not in calls:
                    self.assertTrue(piece.id and piece.function.name)
                    calls[piece.index] = [piece.function.name, ""]
                else:
                    self.assertFalse(piece.id or piece.function.name)
                calls[piece.index][1] += piece.function.arguments or ""
            reason = chunk.choices[0].finish_reason or reason
        self.assertEqual(reason, "tool_calls")
        self.assertEqual(sorted(calls), list(range(len(calls))))
        self.assertEqual([tuple(call) for _, call in sorted(calls.items())],
                         [(call.function.name, call.function.arguments) for call in whole])
        for _, arguments in calls.values():
            json.loads(arguments)

    def test_none_calls_nothing(self):
        choice = self.call(tool_choice="none", max_tokens=16).choices[0]
        self.assertIsNone(choice.message.tool_calls)

    def test_legacy_functions_are_offered(self):
        answer = self.ask("Weather?", functions=[WEATHER["function"]], max_tokens=8)
        self.assertGreater(answer.usage.prompt_tokens, self.ask("Weather?", max_tokens=8).usage.prompt_tokens)


class City(BaseModel):
    name: str
    inhabitants: int
    capital: bool


FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "strict": True,
                                                 "schema": {**City.model_json_schema(), "additionalProperties": False}}}


class StructuredOutputs(OpenAiTest):
    def test_parse_gives_the_object(self):
        for seed in range(3):
            answer = self.client.chat.completions.parse(model=self.model, messages=user("Name a city."), seed=seed,
                                                   temperature=1, max_tokens=400, response_format=City)
            choice = answer.choices[0]
            self.assertEqual(choice.finish_reason, "stop", choice.message.content)
            self.assertIsInstance(choice.message.parsed, City)

    def test_json_object_is_an_object(self):
        choice = self.ask("Some JSON.", response_format={"type": "json_object"}, max_tokens=300, seed=2).choices[0]
        if choice.finish_reason == "stop":
            self.assertIsInstance(json.loads(choice.message.content), dict)

    def test_responses_parse_gives_the_object(self):
        answer = self.client.responses.parse(model=self.model, input="Name a city.", text_format=City,
                                        max_output_tokens=400, extra_body={"seed": 1})
        self.assertIsInstance(answer.output_parsed, City)

    def either(self, **fields):
        """With optional tools and a format, the answer is JSON of the format, or calls."""
        return self.ask("What is the weather in Oslo?", tools=[WEATHER, CLOCK],
                        **{"response_format": FORMAT, "max_tokens": 300, "temperature": 1, **fields})

    def kind(self, choice):
        if choice.finish_reason == "length":
            return "cut"
        if choice.message.tool_calls:
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertFalse(choice.message.content)
            for call in choice.message.tool_calls:
                self.assertIn(call.function.name, ("get_weather", "get_time"))
                self.assertIsInstance(json.loads(call.function.arguments)["city"], str)
            return "calls"
        self.assertEqual(choice.finish_reason, "stop")
        City.model_validate_json(choice.message.content)
        return "format"

    def test_tools_beside_a_format_give_calls_or_the_format(self):
        tag, = self.ids("<tool_call>")
        for bias, wanted in (({str(tag): 100}, "calls"), ({str(tag): -100}, "format")):
            kinds = [self.kind(self.either(seed=seed, logit_bias=bias, parallel_tool_calls=False).choices[0])
                     for seed in range(4)]
            self.assertEqual(set(kinds) - {"cut"}, {wanted})
        for seed in range(4):  # whichever the model chooses, with and without drafts
            drafted = self.either(seed=seed).choices[0]
            plain = self.either(seed=seed, extra_body={"speculation": "off"}).choices[0]
            self.assertNotEqual(self.kind(drafted), None)
            self.assertEqual(drafted.message.content, plain.message.content)
            self.assertEqual([call.function for call in drafted.message.tool_calls or []],
                             [call.function for call in plain.message.tool_calls or []])

    def test_tools_beside_a_format_wait_for_the_end_of_thinking(self):
        choice = self.either(seed=2, extra_body={"chat_template_kwargs": {"enable_thinking": True},
                                                 "thinking_budget": 20}).choices[0]
        self.assertTrue(choice.message.reasoning_content)
        self.kind(choice)

    def test_a_streamed_call_beside_a_format_joins_to_the_whole(self):
        tag, = self.ids("<tool_call>")
        for bias in ({str(tag): 100}, {str(tag): -100}):
            fields = dict(seed=1, temperature=0, logit_bias=bias, parallel_tool_calls=False)
            whole = self.either(**fields).choices[0].message
            content, arguments = "", ""
            for chunk in self.either(stream=True, **fields):
                content += chunk.choices[0].delta.content or ""
                for piece in chunk.choices[0].delta.tool_calls or []:
                    arguments += piece.function.arguments or ""
            self.assertEqual(content, whole.content or "")
            self.assertEqual(arguments, "".join(call.function.arguments for call in whole.tool_calls or []))

    def test_a_format_that_cannot_be_enforced_is_named_beside_tools_too(self):
        bad = {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": {
            "type": "array", "items": {"type": "integer"}, "uniqueItems": True}}}
        with self.assertRaises(openai.BadRequestError) as caught:
            self.either(response_format=bad)
        self.assertEqual(caught.exception.param, "response_format.json_schema.schema")


if __name__ == "__main__":
    unittest.main()
