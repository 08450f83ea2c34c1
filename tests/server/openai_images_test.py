"""OpenAI's Python SDK against the real server: pictures in chat and responses, streamed, counted, in tool results.

    FORETOKEN=build/release/foretoken tools/sdk_test tests/server/openai_images_test.py [-v] [Class.test]
"""
import openai

from openai_fixture import OpenAiTest, user
from pictures import SHAPES, SHAPES_TOKENS, data_uri, image_url, png, tokens_of

MARKS = 2  # tokens around an image: its begin and its end
QUESTION = "Describe the picture."


class Images(OpenAiTest):
    def ask(self, parts, **fields):
        return self.client.chat.completions.create(model=self.model, messages=[{"role": "user", "content": parts}],
                                                   **{"temperature": 0, "max_tokens": 24, **fields})

    def respond(self, content, **fields):
        return self.client.responses.create(model=self.model, temperature=0, max_output_tokens=24,
                                            input=[{"role": "user", "content": content}], **fields)

    def refused(self, parts):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask(parts)
        return caught.exception

    def test_a_picture_is_described_the_same_in_chat_stream_and_responses(self):
        parts = [image_url(SHAPES), {"type": "text", "text": QUESTION}]
        answer = self.ask(parts)
        self.assertIn("red circle", answer.choices[0].message.content)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in self.ask(parts, stream=True))
        self.assertEqual(streamed, answer.choices[0].message.content)
        content = [{"type": "input_image", "image_url": data_uri(SHAPES), "detail": "auto"},
                   {"type": "input_text", "text": QUESTION}]
        response = self.respond(content)
        self.assertEqual(response.output_text, answer.choices[0].message.content)
        self.assertEqual(response.usage.input_tokens, answer.usage.prompt_tokens)

    def test_usage_counts_the_tokens_of_each_image(self):
        text = {"type": "text", "text": QUESTION}
        alone = self.ask([text]).usage.prompt_tokens
        for pictures in ([(64, 64)], [(96, 64), (288, 256)], [(64, 128)] * 5):
            parts = [image_url(png(*size)) for size in pictures]
            wanted = alone + sum(tokens_of(*size) + MARKS for size in pictures)
            self.assertEqual(self.ask([*parts, text]).usage.prompt_tokens, wanted, pictures)
        self.assertEqual(self.ask([image_url(SHAPES), text]).usage.prompt_tokens, alone + SHAPES_TOKENS + MARKS)

    def test_responses_count_input_tokens_with_images(self):
        content = [{"type": "input_image", "image_url": data_uri(SHAPES), "detail": "high"},
                   {"type": "input_text", "text": QUESTION}]
        counted = self.client.responses.input_tokens.count(model=self.model,
                                                           input=[{"role": "user", "content": content}])
        self.assertEqual(counted.input_tokens, self.respond(content).usage.input_tokens)

    def test_a_response_with_an_image_is_continued(self):
        first = self.respond([{"type": "input_image", "image_url": data_uri(SHAPES), "detail": "auto"},
                              {"type": "input_text", "text": QUESTION}])
        second = self.client.responses.create(model=self.model, previous_response_id=first.id, temperature=0,
                                              input="And the square?", max_output_tokens=16)
        self.assertGreater(second.usage.input_tokens, first.usage.input_tokens + 4)

    def test_the_result_of_a_tool_may_be_an_image(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "draw", "arguments": "{}"}}
        tools = [{"type": "function", "function": {"name": "draw", "parameters": {"type": "object", "properties": {}}}}]

        def prompt_tokens(content):
            return self.client.chat.completions.create(
                model=self.model, tools=tools, temperature=0, max_tokens=8,
                messages=[*user("Draw."), {"role": "assistant", "content": None, "tool_calls": [call]},
                          {"role": "tool", "tool_call_id": "call_1", "content": content}]).usage.prompt_tokens

        words = [{"type": "text", "text": "Done."}]
        self.assertEqual(prompt_tokens([image_url(SHAPES), *words]), prompt_tokens(words) + SHAPES_TOKENS + MARKS)
        function = {"type": "function", "name": "draw", "parameters": {"type": "object", "properties": {}}}

        def input_tokens(output):
            return self.client.responses.create(
                model=self.model, tools=[function], temperature=0, max_output_tokens=8,
                input=[*user("Draw."), {"type": "function_call", "call_id": "c", "name": "draw", "arguments": "{}"},
                       {"type": "function_call_output", "call_id": "c", "output": output}]).usage.input_tokens

        words = [{"type": "input_text", "text": "Done."}]
        image = {"type": "input_image", "image_url": data_uri(SHAPES), "detail": "auto"}
        self.assertEqual(input_tokens([image, *words]), input_tokens(words) + SHAPES_TOKENS + MARKS)

    def test_detail_is_taken_and_a_wrong_one_is_refused(self):
        text = {"type": "text", "text": QUESTION}
        for detail in ("auto", "low", "high"):
            self.assertEqual(self.ask([image_url(SHAPES, detail=detail), text]).choices[0].finish_reason, "stop")
        self.assertEqual(self.refused([image_url(SHAPES, detail="vast"), text]).param,
                         "messages[0].content[0].image_url.detail")

    def test_a_broken_image_and_an_address_are_refused_with_their_part(self):
        text = {"type": "text", "text": QUESTION}
        error = self.refused([text, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}])
        self.assertEqual(error.param, "messages[0].content[1]")
        self.assertIn("PNG, JPEG", error.message)
        error = self.refused([text, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}])
        self.assertEqual(error.param, "messages[0].content[1].image_url.url")
        self.assertIn("--image-urls", error.message)

    def test_speculation_stays_engaged(self):
        answer = self.ask([image_url(SHAPES), {"type": "text", "text": QUESTION}], extra_body={"depth": 3})
        self.assertTrue(answer.speculation["engaged"])
        self.assertGreater(answer.speculation["drafted"], 0)
        plain = self.ask([image_url(SHAPES), {"type": "text", "text": QUESTION}], extra_body={"speculation": "off"})
        self.assertEqual(plain.choices[0].message.content, answer.choices[0].message.content)


if __name__ == "__main__":
    import unittest

    unittest.main()
