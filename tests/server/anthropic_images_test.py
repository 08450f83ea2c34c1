"""The anthropic SDK against the real server: image blocks of users and of tool results, counted exactly.

    FORETOKEN=build/release/foretoken tools/sdk_test tests/server/anthropic_images_test.py [-v] [Class.test]
"""
import base64
import unittest

import anthropic

from pictures import SHAPES, SHAPES_TOKENS, png, tokens_of
from server_process import Server

MARKS = 2  # tokens around an image: its begin and its end
TOOL = {"name": "draw", "description": "Draws", "input_schema": {"type": "object", "properties": {}}}
QUESTION = {"type": "text", "text": "Describe the picture."}


def image(picture, media_type="image/png"):
    data = base64.b64encode(picture).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def drawn(content):
    """A conversation in which a tool returned `content`."""
    return [{"role": "user", "content": "Draw."},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "draw", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": content}]}]


class Images(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server().start()
        cls.sdk = anthropic.Anthropic(base_url=cls.server.url, api_key="none")
        cls.model = cls.server.facts["model"]

    @classmethod
    def tearDownClass(cls):
        cls.sdk.close()
        assert cls.server.stop() == 0, cls.server.log()

    def create(self, messages, **fields):
        return self.sdk.messages.create(model=self.model, max_tokens=24, messages=messages,
                                        extra_body={"temperature": 0}, **fields)

    def tokens(self, messages, **fields):
        """Of the prompt: counted, and the same in the usage of an answer."""
        counted = self.sdk.messages.count_tokens(model=self.model, messages=messages, **fields).input_tokens
        usage = self.create(messages, **fields).usage
        used = usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens
        self.assertEqual(used, counted)
        return counted

    def test_a_picture_is_described_whole_and_streamed(self):
        messages = [{"role": "user", "content": [image(SHAPES), QUESTION]}]
        answer = self.create(messages).content[0].text
        self.assertIn("red circle", answer)
        with self.sdk.messages.stream(model=self.model, max_tokens=24, messages=messages,
                                      extra_body={"temperature": 0}) as stream:
            self.assertEqual(stream.get_final_message().content[0].text, answer)

    def test_counted_and_used_tokens_have_each_image(self):
        alone = self.tokens([{"role": "user", "content": [QUESTION]}])
        for sizes in ([(64, 64)], [(96, 64), (288, 256)], [(64, 128)] * 5):
            content = [image(png(*size)) for size in sizes] + [QUESTION]
            wanted = alone + sum(tokens_of(*size) + MARKS for size in sizes)
            self.assertEqual(self.tokens([{"role": "user", "content": content}]), wanted, sizes)

    def test_the_result_of_a_tool_may_have_images(self):
        words = {"type": "text", "text": "Done."}
        without = self.tokens(drawn([words]), tools=[TOOL])
        one = SHAPES_TOKENS + MARKS
        self.assertEqual(self.tokens(drawn([image(SHAPES), words]), tools=[TOOL]), without + one)
        self.assertEqual(self.tokens(drawn([image(SHAPES), image(SHAPES), words]), tools=[TOOL]), without + 2 * one)

    def test_an_image_of_an_earlier_turn_stays(self):
        first = [{"role": "user", "content": [image(SHAPES), QUESTION]}]
        later = [*first, {"role": "assistant", "content": "A red circle."}, {"role": "user", "content": "And more?"}]
        self.assertGreater(self.tokens(later), self.tokens(first) + 4)

    def test_wrong_images_are_refused_with_their_place(self):
        for block, contains in ((image(b"hello"), "PNG, JPEG"), (image(SHAPES[:100]), "decoded"),
                                ({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
                                 "--image-urls"),
                                ({"type": "image", "source": {"type": "file", "file_id": "f"}}, "stores no files")):
            with self.assertRaises(anthropic.BadRequestError) as caught:
                self.create([{"role": "user", "content": [QUESTION, block]}])
            message = caught.exception.body["error"]["message"]
            self.assertIn("messages[0].content[1]", message)
            self.assertIn(contains, message)


if __name__ == "__main__":
    unittest.main()
