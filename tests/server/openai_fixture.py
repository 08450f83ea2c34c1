"""Shared by the suites with OpenAI's Python SDK: a server and its client for each class."""
import unittest

import httpx
import openai

from server_process import Server

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}


def user(text):
    return [{"role": "user", "content": text}]


class OpenAiTest(unittest.TestCase):
    """The tests check structure and equality, not the small model's words."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--api-key", "secret", "--alias", "gpt-tiny").start()
        cls.client = openai.OpenAI(base_url=cls.server.url + "/v1", api_key="secret")
        cls.model = cls.server.facts["model"]

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        code = cls.server.stop()
        assert code == 0, f"serve ended with {code}: {cls.server.log()}"

    def ask(self, text="Count to five.", **fields):
        return self.client.chat.completions.create(model=self.model, messages=user(text),
                                                   **{"max_tokens": 24, **fields})

    def post(self, path, **rest):
        return httpx.post(self.server.url + path, headers={"Authorization": "Bearer secret"}, **rest)

    def ids(self, text):
        return self.post("/v1/tokenize", json={"text": text}).json()["tokens"]
