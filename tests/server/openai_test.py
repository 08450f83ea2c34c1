"""OpenAI's Python SDK against the real server: completions, responses, errors, models, connect.

    FORETOKEN=build/release/foretoken tools/sdk_test tests/server/openai_test.py [-v] [Class.test]
"""
import json
import subprocess
import unittest

import openai

from openai_fixture import WEATHER, OpenAiTest, user
from server_process import program

END_TOKEN = "8178"  # <|im_end|> of the shipped model
PATCH = {"type": "custom", "name": "apply_patch", "description": "Applies a patch to a file"}


class Completions(OpenAiTest):
    def test_prompts_in_all_their_forms(self):
        ids = self.ids("The river")
        texts = []
        for prompt in ("The river", ["The river"], ids, [ids]):
            answer = self.client.completions.create(model=self.model, prompt=prompt, temperature=0)
            texts.append(answer.choices[0].text)
            self.assertLessEqual(answer.usage.completion_tokens, 16)
        self.assertEqual(len(set(texts)), 1)

    def test_each_prompt_gets_n_answers(self):
        answer = self.client.completions.create(model=self.model, prompt=["One", "Two"], n=2, seed=4, max_tokens=6)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2, 3])
        lone = self.client.completions.create(model=self.model, prompt="Two", seed=5, max_tokens=6)
        self.assertEqual(answer.choices[3].text, lone.choices[0].text)

    def test_a_stream_joins_to_the_whole_answer(self):
        fields = dict(model=self.model, prompt="The river", temperature=0, max_tokens=20, logprobs=1)
        whole = self.client.completions.create(**fields).choices[0]
        text, tokens, offsets = "", [], []
        for chunk in self.client.completions.create(stream=True, **fields):
            text += chunk.choices[0].text
            if chunk.choices[0].logprobs:
                tokens += chunk.choices[0].logprobs.tokens
                offsets += chunk.choices[0].logprobs.text_offset
        self.assertEqual(text, whole.text)
        self.assertEqual(tokens, whole.logprobs.tokens)
        self.assertEqual(offsets, whole.logprobs.text_offset)

    def test_echo_puts_the_prompt_first(self):
        fields = dict(model=self.model, prompt="The river", temperature=0, max_tokens=8)
        plain = self.client.completions.create(**fields).choices[0].text
        self.assertEqual(self.client.completions.create(echo=True, **fields).choices[0].text, "The river" + plain)
        chunks = self.client.completions.create(echo=True, stream=True, **fields)
        self.assertEqual("".join(chunk.choices[0].text for chunk in chunks), "The river" + plain)

    def score(self, prompt, **fields):
        return self.client.completions.create(model=self.model, prompt=prompt, echo=True, temperature=0,
                                              **{"logprobs": 1, "max_tokens": 0, **fields}).choices[0]

    def test_a_prompt_alone_is_scored(self):
        text = "The river runs to the sea. " * 20  # several chunks
        choice = self.score(text)
        self.assertEqual(choice.text, text)
        found = choice.logprobs
        self.assertEqual("".join(found.tokens), text)
        self.assertIsNone(found.token_logprobs[0])
        self.assertIsNone(found.top_logprobs[0])
        for token, logprob, top, offset in list(zip(found.tokens, found.token_logprobs, found.top_logprobs,
                                                    found.text_offset))[1:]:
            self.assertLessEqual(logprob, 0)
            self.assertEqual(top[token], logprob)
            self.assertLessEqual(logprob, max(top.values()))
            self.assertTrue(text[offset:].startswith(token))

    def test_scores_are_those_of_the_command_line_and_the_top_is_the_likeliest(self):
        text = "def add(a, b):\n    return a + b\n"
        ids = self.ids(text)
        command = [program(), "score", "--json", "--top", "1000", "--prompt-ids", ",".join(map(str, ids))]
        report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for prompt in (text, ids):
            choice = self.score(prompt, logprobs=3)
            self.assertEqual(choice.text, text)
            found = choice.logprobs
            self.assertEqual(len(found.tokens), len(ids))
            self.assertAlmostEqual(sum(found.token_logprobs[1:]), report["log_likelihood"], places=6)
            for i, position in enumerate(report["positions"][:-1]):
                likely = [logit - position["logsumexp"] for _, logit in position["top"]]
                for one, wanted in zip(sorted(found.top_logprobs[i + 1].values(), reverse=True), likely[:3]):
                    self.assertAlmostEqual(one, wanted, places=6)
                self.assertIn(len(found.top_logprobs[i + 1]), (3, 4))  # the token itself, if not among them
                top = dict(zip((token for token, _ in position["top"]), likely))
                self.assertAlmostEqual(found.token_logprobs[i + 1], top.get(ids[i + 1], found.token_logprobs[i + 1]),
                                       places=6)

    def test_what_was_generated_scores_as_it_was_generated(self):
        ids = self.ids("def add(a, b):")
        given = self.client.completions.create(model=self.model, prompt=ids, temperature=0, max_tokens=12,
                                               logprobs=1, logit_bias={END_TOKEN: -100}).choices[0]
        answer = self.ids(given.text)
        self.assertEqual(len(answer), 12)  # or the text was cut into other tokens than were generated
        scored = self.score(ids + answer)
        self.assertEqual(scored.text, "def add(a, b):" + given.text)
        self.assertEqual(scored.logprobs.token_logprobs[len(ids):], given.logprobs.token_logprobs)

    def test_echo_changes_nothing_of_the_answer_whole_or_streamed(self):
        fields = dict(model=self.model, prompt="The river", temperature=0.8, seed=3, max_tokens=12, logprobs=2)
        plain = self.client.completions.create(**fields).choices[0].logprobs
        whole = self.client.completions.create(echo=True, **fields).choices[0]
        count = len(self.ids("The river"))
        self.assertEqual(whole.logprobs.tokens[count:], plain.tokens)
        self.assertEqual(whole.logprobs.token_logprobs[count:], plain.token_logprobs)
        self.assertEqual(whole.logprobs.top_logprobs[count:], plain.top_logprobs)
        self.assertEqual([at - len("The river") for at in whole.logprobs.text_offset[count:]],
                         [at for at in plain.text_offset])
        text, joined = "", {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for chunk in self.client.completions.create(echo=True, stream=True, **fields):
            text += chunk.choices[0].text
            for name, values in joined.items():
                values += getattr(chunk.choices[0].logprobs, name) if chunk.choices[0].logprobs else []
        self.assertEqual(text, whole.text)
        self.assertEqual(joined, {name: getattr(whole.logprobs, name) for name in joined})

    def test_offsets_count_characters_not_bytes(self):
        text = "Grüße, 世界 and 🦊!"
        found = self.score(text).logprobs
        self.assertEqual(found.text_offset[0], 0)
        for token, offset in zip(found.tokens, found.text_offset):
            if not token.startswith("bytes:"):
                self.assertTrue(text[offset:].startswith(token), (token, offset))

    def test_the_harness_form_scores_and_adds_one_token(self):
        """Requests of lm-eval's local-completions: ids of context and continuation, several per request.
        It reads [context:-1], so one generated token is needed, which may be an end token."""
        cases = [("The river runs", " to the sea"), ("def add(a, b):", "\n    return a + b"), ("One", " two")]
        ids = [(self.ids(context), self.ids(rest)) for context, rest in cases]
        fields = dict(model=self.model, temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True)
        for extra in ({}, {"logit_bias": {END_TOKEN: 100}}):
            answer = self.client.completions.create(prompt=[a + b for a, b in ids], **fields, **extra)
            self.assertEqual([choice.index for choice in answer.choices], [0, 1, 2])
            for (context, rest), choice in zip(ids, answer.choices):
                found = choice.logprobs
                self.assertEqual(len(found.token_logprobs), len(context) + len(rest) + 1)
                self.assertEqual(len(found.top_logprobs), len(found.token_logprobs))
                alone = self.score(context + rest).logprobs
                self.assertEqual(found.token_logprobs[:-1], alone.token_logprobs)
                for logprob, top in zip(found.token_logprobs[1:], found.top_logprobs[1:]):
                    self.assertLessEqual(logprob, max(top.values()))  # equal: it is the greedy token
            self.assertEqual({choice.finish_reason for choice in answer.choices}, {"stop" if extra else "length"})

    def test_nothing_to_do_is_refused_by_name(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model=self.model, prompt="a", max_tokens=0)
        self.assertEqual(caught.exception.param, "max_tokens")

    def test_a_suffix_is_refused_by_a_model_that_cannot(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.completions.create(model=self.model, prompt="def f(", suffix="return x")
        self.assertEqual(caught.exception.param, "suffix")


class Responses(OpenAiTest):
    def create(self, text="Say hello.", **fields):
        return self.client.responses.create(model=self.model, input=text, **{"max_output_tokens": 24, **fields})

    def test_an_answer_has_every_part(self):
        answer = self.create(temperature=0, instructions="Be brief.", metadata={"a": "b"})
        self.assertTrue(answer.id.startswith("resp_"))
        self.assertIn(answer.status, ("completed", "incomplete"))
        self.assertEqual(answer.metadata, {"a": "b"})
        self.assertEqual(answer.output[0].type, "message")
        self.assertEqual(answer.output_text, answer.output[0].content[0].text)
        self.assertEqual(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens)
        if answer.status == "incomplete":
            self.assertEqual(answer.incomplete_details.reason, "max_output_tokens")

    def test_leading_developer_turns_of_many_parts_are_one_system_turn(self):
        def turn(*texts):
            return {"type": "message", "role": "developer",
                    "content": [{"type": "input_text", "text": text} for text in texts]}
        asked = {"role": "user", "content": "Say hello."}
        answer = self.create([turn("Be brief."), turn("Be", " kind."), asked], temperature=0)  # as Codex writes
        alike = self.create([asked], temperature=0, instructions="Be brief.\n\nBe kind.")
        self.assertEqual(answer.output_text, alike.output_text)
        self.assertEqual(answer.usage.input_tokens, alike.usage.input_tokens)

    def test_a_stream_is_numbered_and_ends_with_the_whole_response(self):
        whole = self.create(temperature=0)
        text, last, number = "", None, -1
        for event in self.create(temperature=0, stream=True):
            pause = number > 0 and event.type == "response.in_progress"
            number += 0 if pause else 1
            self.assertEqual(event.sequence_number, number)
            if event.type == "response.output_text.delta":
                text += event.delta
            last = event
        self.assertIn(last.type, ("response.completed", "response.incomplete"))
        self.assertEqual(text, whole.output_text)
        self.assertEqual(last.response.output_text, whole.output_text)

    def test_the_stream_helper_understands_every_event(self):
        with self.client.responses.stream(model=self.model, input="Hi", max_output_tokens=300) as stream:
            types = [event.type for event in stream]
            try:
                self.assertEqual(stream.get_final_response().status, "completed")
            except RuntimeError:  # the helper knows completed only
                self.assertEqual(types[-1], "response.incomplete")
        self.assertEqual(types[:3], ["response.created", "response.in_progress", "response.output_item.added"])

    def test_a_conversation_goes_on_from_the_previous_response(self):
        first = self.create("My name is Ada.", temperature=0)
        second = self.create("What is my name?", previous_response_id=first.id, temperature=0)
        history = [{"role": "user", "content": "My name is Ada."},
                   {"role": "assistant", "content": first.output_text},
                   {"role": "user", "content": "What is my name?"}]
        by_hand = self.client.responses.create(model=self.model, input=history, temperature=0, max_output_tokens=24)
        self.assertEqual(second.usage.input_tokens, by_hand.usage.input_tokens)
        self.assertEqual(second.output_text, by_hand.output_text)
        self.assertEqual(self.client.responses.retrieve(first.id).output_text, first.output_text)
        self.client.responses.delete(first.id)
        with self.assertRaises(openai.NotFoundError) as caught:
            self.create("And now?", previous_response_id=first.id)
        self.assertEqual(caught.exception.param, "previous_response_id")
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(first.id)

    def test_store_false_keeps_nothing(self):
        answer = self.create(store=False, max_output_tokens=2)
        with self.assertRaises(openai.NotFoundError):
            self.client.responses.retrieve(answer.id)

    def test_input_tokens_are_those_of_the_answer(self):
        tool = {"type": "function", **WEATHER["function"]}
        for fields in ({}, {"instructions": "Be brief."}, {"tools": [tool, PATCH]},
                       {"input": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"},
                                  {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                                  {"type": "function_call_output", "call_id": "c", "output": "ok"}]}):
            body = {"model": self.model, "input": "Hi", **fields}
            count = self.client.responses.input_tokens.count(**body)
            answer = self.client.responses.create(**body, max_output_tokens=2)
            self.assertEqual(count.input_tokens, answer.usage.input_tokens)

    def test_a_function_is_called_and_its_output_taken(self):
        tool = {"type": "function", **WEATHER["function"]}
        answer = self.create("The weather in Oslo?", tools=[tool, {"type": "web_search"}],
                             tool_choice="required", max_output_tokens=200, extra_body={"seed": 1})
        calls = [item for item in answer.output if item.type == "function_call"]
        self.assertTrue(calls)
        json.loads(calls[0].arguments)
        following = self.client.responses.create(
            model=self.model, previous_response_id=answer.id, max_output_tokens=4, tools=[tool],
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "cold"} for call in calls])
        self.assertGreater(following.usage.input_tokens, answer.usage.input_tokens)

    def test_a_custom_tool_gets_plain_text(self):
        answer = self.create("Patch it.", tools=[PATCH], tool_choice={"type": "custom", "name": "apply_patch"},
                             max_output_tokens=300, parallel_tool_calls=False,
                             extra_body={"seed": 1, "temperature": 0.7})
        calls = [item for item in answer.output if item.type == "custom_tool_call"]
        self.assertEqual([call.name for call in calls], ["apply_patch"])
        self.assertIsInstance(calls[0].input, str)


class Errors(OpenAiTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.sent = []  # every request that a client of the SDK sends, retries too
        cls.client.close()
        cls.client = cls.counted("secret")

    @classmethod
    def counted(cls, key):
        return openai.OpenAI(base_url=cls.server.url + "/v1", api_key=key,
                             http_client=openai.DefaultHttpxClient(event_hooks={"request": [cls.sent.append]}))

    def refused(self, kind, run):
        self.sent.clear()
        with self.assertRaises(kind) as caught:
            run()
        self.assertEqual(len(self.sent), 1, "the SDK tried again")
        return caught.exception

    def test_what_is_wrong_is_a_bad_request_that_names_the_field(self):
        error = self.refused(openai.BadRequestError, lambda: self.ask(temperature=9))
        self.assertEqual((error.param, error.type), ("temperature", "invalid_request_error"))
        error = self.refused(openai.BadRequestError, lambda: self.client.chat.completions.create(
            model=self.model, messages=[{"role": "wizard", "content": "x"}]))
        self.assertEqual(error.param, "messages[0].role")

    def test_a_prompt_beyond_the_context(self):
        error = self.refused(openai.BadRequestError, lambda: self.ask("word " * 9000))
        self.assertEqual(error.code, "context_length_exceeded")

    def test_unknown_models_and_routes_are_not_found(self):
        error = self.refused(openai.NotFoundError, lambda: self.client.chat.completions.create(
            model="gpt-9", messages=user("x")))
        self.assertEqual(error.code, "model_not_found")
        self.refused(openai.NotFoundError, lambda: self.client.models.retrieve("gpt-9"))
        self.refused(openai.NotFoundError, lambda: self.client.embeddings.create(model=self.model, input="x"))

    def test_a_wrong_key_is_an_authentication_error(self):
        stranger = self.counted("guess")
        self.refused(openai.AuthenticationError, stranger.models.list)
        stranger.close()

    def test_malformed_json_is_a_bad_request(self):
        for body in (b"{", b"\xff\xfe", b"[1]", b""):
            answer = self.post("/v1/chat/completions", content=body)
            self.assertEqual(answer.status_code, 400)
            self.assertEqual(answer.json()["error"]["type"], "invalid_request_error")

    def test_request_ids_are_echoed(self):
        raw = self.client.models.with_raw_response.list(extra_headers={"x-request-id": "mine-1"})
        self.assertEqual(raw.headers["x-request-id"], "mine-1")
        self.assertTrue(self.ask(max_tokens=1)._request_id)


class Connect(OpenAiTest):
    def connect(self, client, *arguments):
        return subprocess.run([program(), "connect", client, "--url", self.server.url, "--json", *arguments],
                              capture_output=True, text=True, check=True, timeout=240)

    def test_settings_name_the_model_and_the_context_of_the_running_server(self):
        for client in ("openwebui", "cline", "continue", "opencode", "codex", "claude-code", "sdk"):
            found = json.loads(self.connect(client, "--api-key", "secret").stdout)
            self.assertEqual((found["model"], found["context"]), (self.model, self.server.facts["context"]))
            self.assertIn(self.server.url, found["settings"])
            self.assertIn(self.model, found["settings"])

    def test_a_missing_key_is_said(self):
        done = self.connect("sdk")
        self.assertIn("give its key with --api-key", done.stderr)
        self.assertIsNone(json.loads(done.stdout)["model"])


class Models(OpenAiTest):
    def test_the_model_and_its_names_are_listed(self):
        ids = [entry.id for entry in self.client.models.list()]
        self.assertEqual(ids, [self.model, "gpt-tiny"])
        self.assertEqual(self.client.models.retrieve("gpt-tiny").context_length, self.server.facts["context"])


if __name__ == "__main__":
    unittest.main()
