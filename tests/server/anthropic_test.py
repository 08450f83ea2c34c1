"""The anthropic SDK against the real server and the shipped model: the features that Claude Code and others use.

    python tests/server/anthropic_test.py        (with the SDK; $FORETOKEN names another program)
"""
import json
import threading
import time
import unittest
import urllib.request

import anthropic

from anthropic_bodies import ADD, TIME, WEATHER, bodies, call, result
from server_process import Server
from short_model import short_model

ALIAS = "claude-haiku-local"
QUESTION = [{"role": "user", "content": "What is the weather in Bergen?"}]
OPEN = []  # clients to close
CODE = [{"role": "user", "content": "Write a function that adds two numbers."}]


def setUpModule():
    global SERVER
    SERVER = Server("--alias", ALIAS, "--slots", "4").start()


def tearDownModule():
    for sdk in OPEN:
        sdk.close()
    assert SERVER.stop() == 0, SERVER.log()


class Counted(anthropic.DefaultHttpxClient):
    """Counts the SDK's requests, including retries."""

    sent = 0

    def send(self, *arguments, **named):
        self.sent += 1
        return super().send(*arguments, **named)


def client():
    http = Counted()
    made = anthropic.Anthropic(base_url=SERVER.url, api_key="none", http_client=http)
    OPEN.append(made)
    return made, http


def asked(temperature=0, **fields):
    """Arguments for the SDK; its newest versions have no sampling arguments, but older ones do."""
    extra = {"temperature": temperature, **fields.pop("extra_body", {})}
    return {"model": ALIAS, "max_tokens": 64, "extra_body": extra, **fields}


def prompt_tokens(usage):
    return usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens


def create(**fields):
    sdk, _ = client()
    return sdk.messages.create(**asked(**fields))


def stream_of(**fields):
    """The events, and the message that the SDK builds from them."""
    sdk, _ = client()
    with sdk.messages.stream(**asked(**fields)) as stream:
        events = list(stream)
        return events, stream.get_final_message()


def raw_events(**fields):
    """Every frame as received: (event, data)."""
    body = {"model": ALIAS, "max_tokens": 64, "temperature": 0, "stream": True, **fields}
    request = urllib.request.Request(SERVER.url + "/v1/messages?beta=true", json.dumps(body).encode(),
                                     {"content-type": "application/json", "anthropic-beta": "any-2026"})
    with urllib.request.urlopen(request) as answer:
        frames = answer.read().decode().split("\n\n")
    assert frames.pop() == ""
    pairs = []
    for frame in frames:
        name, data = frame.split("\n")
        assert name.startswith("event: ") and data.startswith("data: "), frame
        pairs.append((name[7:], json.loads(data[6:])))
    return pairs


def content_of(message):
    """The value without its random parts, the ids of calls."""
    return [{key: value for key, value in block.model_dump().items() if key != "id" and value is not None}
            for block in message.content]


class Answers(unittest.TestCase):
    def test_a_message_has_text_usage_and_a_report(self):
        message = create(messages=CODE)
        self.assertEqual((message.type, message.role, message.model), ("message", "assistant", ALIAS))
        self.assertTrue(message.id.startswith("msg_"))
        self.assertIn("def ", message.content[0].text)
        self.assertGreater(prompt_tokens(message.usage), 5)
        self.assertGreater(message.usage.output_tokens, 5)
        self.assertTrue(message.speculation["engaged"])
        self.assertGreater(message.timings["predicted_per_second"], 0)
        self.assertTrue(message._request_id)

    def test_the_stream_adds_up_to_the_whole_answer(self):
        for fields in ({"messages": CODE}, {"messages": QUESTION, "tools": [WEATHER, TIME]},
                       {"messages": CODE, "thinking": {"type": "enabled", "budget_tokens": 16}},
                       {"messages": CODE, "stop_sequences": ["return"]}):
            with self.subTest(fields=fields):
                whole = create(**fields)
                events, final = stream_of(**fields)
                self.assertEqual(content_of(final), content_of(whole))
                self.assertEqual((final.stop_reason, final.stop_sequence),
                                 (whole.stop_reason, whole.stop_sequence))
                self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)
                text = "".join(event.text for event in events if event.type == "text")
                self.assertEqual(text, "".join(b.text for b in final.content if b.type == "text"))

    def test_frames_come_in_order_and_one_block_is_open(self):
        pairs = raw_events(messages=QUESTION, tools=[WEATHER, TIME])
        for name, data in pairs:
            self.assertEqual(name, data["type"])
        names = [name for name, _ in pairs]
        self.assertEqual(names[:2], ["message_start", "ping"])
        self.assertEqual(names[-2:], ["message_delta", "message_stop"])
        start = pairs[0][1]["message"]
        self.assertEqual((start["content"], start["stop_reason"]), ([], None))
        open_block, blocks = None, 0
        for name, data in pairs:
            if name == "content_block_start":
                self.assertIsNone(open_block)
                self.assertEqual(data["index"], blocks)
                open_block, blocks = data["index"], blocks + 1
            elif name == "content_block_delta":
                self.assertEqual(data["index"], open_block)
            elif name == "content_block_stop":
                self.assertEqual(data["index"], open_block)
                open_block = None
        self.assertIsNone(open_block)
        self.assertGreater(blocks, 0)

    def test_max_tokens_and_stop_sequences_end_an_answer(self):
        short = create(messages=CODE, max_tokens=3)
        self.assertEqual((short.stop_reason, short.usage.output_tokens), ("max_tokens", 3))
        stopped = create(messages=CODE, stop_sequences=["never seen", "return"])
        self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ("stop_sequence", "return"))
        self.assertNotIn("return", stopped.content[0].text)
        self.assertEqual(create(messages=QUESTION, max_tokens=300).stop_reason, "end_turn")

    def test_an_answer_continues_the_assistants_beginning(self):
        message = create(messages=[*CODE, {"role": "assistant", "content": "```python\ndef add("}])
        self.assertNotIn("def add(", message.content[0].text[:10])
        self.assertIn("return", message.content[0].text)

    def test_one_seed_gives_one_answer(self):
        texts = {create(messages=CODE, temperature=1, extra_body={"seed": seed}).content[0].text
                 for seed in (1, 1, 2)}
        self.assertEqual(len(texts), 2)

    def test_the_cache_is_counted_apart(self):
        system = "You are careful. " * 60
        first = create(messages=CODE, system=system, max_tokens=4)
        again = create(messages=CODE, system=system, max_tokens=4)
        self.assertEqual(prompt_tokens(again.usage), prompt_tokens(first.usage))
        self.assertGreater(first.usage.cache_creation_input_tokens, 0)  # the stored message is returned unchanged
        self.assertEqual(again.usage.cache_read_input_tokens,
                         first.usage.cache_creation_input_tokens + first.usage.cache_read_input_tokens)
        self.assertEqual(again.usage.cache_creation_input_tokens, 0)
        self.assertEqual(content_of(first), content_of(again))

    def test_a_billing_line_costs_nothing(self):
        plain = create(messages=CODE, system="Be brief.", max_tokens=8)
        billed = create(messages=CODE, max_tokens=8, system=[
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.9; cc_entrypoint=cli; cch=0a1b2;"},
            {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}])
        tokens = [prompt_tokens(m.usage) for m in (plain, billed)]
        self.assertEqual(*tokens)
        self.assertEqual(content_of(plain), content_of(billed))

    def test_a_system_message_in_the_middle_is_taken(self):
        late = create(messages=[*CODE, {"role": "assistant", "content": "Done."},
                                {"role": "system", "content": "The file has changed."},
                                {"role": "user", "content": "Go on."}], max_tokens=4)
        self.assertEqual(late.stop_reason, "max_tokens")


class Thinking(unittest.TestCase):
    FIELDS = {"messages": CODE, "thinking": {"type": "enabled", "budget_tokens": 24}}

    def test_thinking_is_signed_once_and_stands_before_text(self):
        pairs = raw_events(**self.FIELDS)
        kinds = [data["content_block"]["type"] for name, data in pairs if name == "content_block_start"]
        self.assertEqual(kinds.index("thinking"), 0)
        self.assertEqual(kinds.count("thinking"), 1)
        deltas = [data["delta"]["type"] for name, data in pairs
                  if name == "content_block_delta" and data["index"] == 0]
        self.assertEqual(deltas.count("signature_delta"), 1)
        self.assertEqual(deltas[-1], "signature_delta")
        others = [data["delta"]["type"] for name, data in pairs
                  if name == "content_block_delta" and data["index"] > 0]
        self.assertNotIn("signature_delta", others)

    def test_thinking_goes_back_into_the_conversation(self):
        history = [{"role": "user", "content": "What time is it in Madrid?"},
                   {"role": "assistant", "content": [
                       {"type": "thinking", "thinking": "I need the clock.", "signature": "eA=="},
                       {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"city": "Madrid"}}]},
                   {"role": "user", "content": [
                       {"type": "tool_result", "tool_use_id": "toolu_1", "content": "14:20"}]}]
        sdk, _ = client()
        with_thoughts = sdk.messages.count_tokens(model=ALIAS, messages=history, tools=[TIME]).input_tokens
        history[1]["content"][0] = {"type": "redacted_thinking", "data": "zz"}
        without = sdk.messages.count_tokens(model=ALIAS, messages=history, tools=[TIME]).input_tokens
        self.assertGreater(with_thoughts, without)

    def test_a_budget_is_kept(self):
        message = create(**{**self.FIELDS, "max_tokens": 128})
        self.assertLessEqual(message.usage.output_tokens_details.thinking_tokens, 24)
        self.assertGreater(message.usage.output_tokens, message.usage.output_tokens_details.thinking_tokens)

    def test_without_being_asked_nothing_is_thought(self):
        self.assertEqual({block.type for block in create(messages=CODE).content}, {"text"})


class Tools(unittest.TestCase):
    def test_a_call_and_its_result(self):
        message = create(messages=QUESTION, tools=[WEATHER, TIME])
        self.assertEqual(message.stop_reason, "tool_use")
        made = message.content[-1]
        self.assertEqual((made.type, made.name), ("tool_use", "get_weather"))
        self.assertTrue(made.id.startswith("toolu_"))
        self.assertIsInstance(made.input["city"], str)
        found = {"type": "tool_result", "tool_use_id": made.id,
                 "content": [{"type": "text", "text": '{"temperature": 11, "sky": "rain"}'}]}
        after = create(messages=[*QUESTION, message.to_param(), {"role": "user", "content": [found]}],
                       tools=[WEATHER, TIME])
        self.assertEqual(after.stop_reason, "end_turn")
        self.assertIn("11", after.content[0].text)

    def test_streamed_input_adds_up_to_json(self):
        events, final = stream_of(messages=QUESTION, tools=[WEATHER, TIME])
        pieces = {}
        for event in events:
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                pieces[event.index] = pieces.get(event.index, "") + event.delta.partial_json
        calls = {i: block for i, block in enumerate(final.content) if block.type == "tool_use"}
        self.assertTrue(calls)
        for index, call in calls.items():
            self.assertEqual(json.loads(pieces[index]), call.input)

    def test_any_and_a_name_force_calls_that_fit_the_schema(self):
        for choice, names in (({"type": "any"}, {"add_numbers", "get_time"}),
                              ({"type": "tool", "name": "add_numbers"}, {"add_numbers"})):
            for seed in range(3):
                with self.subTest(choice=choice, seed=seed):
                    message = create(messages=CODE, tools=[ADD, TIME], tool_choice=choice, max_tokens=300,
                                     temperature=1, extra_body={"seed": seed})
                    self.assertEqual(message.stop_reason, "tool_use")
                    calls = [block for block in message.content if block.type == "tool_use"]
                    self.assertTrue(calls)
                    for call in calls:
                        self.assertIn(call.name, names)
                        if call.name == "add_numbers":
                            self.assertIsInstance(call.input["a"], (int, float))

    def test_disabled_parallel_use_means_one_call_at_most(self):
        for seed in range(3):
            message = create(messages=QUESTION, tools=[WEATHER, TIME], max_tokens=300, temperature=1,
                             tool_choice={"type": "any", "disable_parallel_tool_use": True},
                             extra_body={"seed": seed})
            self.assertEqual([block.type for block in message.content].count("tool_use"), 1)

    def test_several_calls_are_several_blocks(self):
        history = []  # an example for the model
        for i, (one, other) in enumerate((("Oslo", "Rome"), ("Paris", "Madrid"), ("Lima", "Lisbon"))):
            history += [
                {"role": "user", "content": f"What is the weather in {one}? What is the weather in {other}?"},
                {"role": "assistant", "content": [call(f"{i}a", city=one), call(f"{i}b", city=other)]},
                {"role": "user", "content": [result(f"{i}a", '{"temperature": 11, "sky": "rain"}'),
                                             result(f"{i}b", '{"temperature": 4, "sky": "sun"}')]},
                {"role": "assistant", "content": "It is 11 degrees and 4 degrees."}]
        question = {"role": "user", "content": "What is the weather in Bergen? What is the weather in Cairo?"}
        fields = {"messages": [*history, question], "tools": [WEATHER, TIME], "max_tokens": 200}
        message = create(**fields)
        calls = [block for block in message.content if block.type == "tool_use"]
        self.assertEqual([made.name for made in calls], ["get_weather"] * 2)
        self.assertEqual(len({made.id for made in calls}), 2)
        _, streamed = stream_of(**fields)
        self.assertEqual(content_of(streamed), content_of(message))
        alone = create(**fields, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
        self.assertEqual([block.type for block in alone.content].count("tool_use"), 1)

    def test_an_output_format_is_followed(self):
        schema = {"type": "object", "required": ["name", "age"], "additionalProperties": False,
                  "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer"}}}
        message = create(messages=CODE, max_tokens=200, temperature=1,
                         output_config={"format": {"type": "json_schema", "schema": schema}})
        parsed = json.loads(message.content[0].text)
        self.assertEqual(set(parsed), {"name", "age"})
        self.assertIsInstance(parsed["age"], int)

    def test_none_means_none(self):
        message = create(messages=QUESTION, tools=[WEATHER], tool_choice={"type": "none"})
        self.assertEqual({block.type for block in message.content}, {"text"})

    def test_server_tools_are_left_out(self):
        sdk, _ = client()
        hosted = {"type": "web_search_20250305", "name": "web_search"}
        count = [sdk.messages.count_tokens(model=ALIAS, messages=QUESTION, tools=tools).input_tokens
                 for tools in ([WEATHER], [WEATHER, hosted])]
        self.assertEqual(*count)


class Counting(unittest.TestCase):
    def test_counted_tokens_are_those_that_are_used(self):
        server = self.enterContext(Server("--alias", ALIAS, "--model", short_model()))
        sdk = self.enterContext(anthropic.Anthropic(base_url=server.url, api_key="none"))
        cases = bodies(ALIAS)
        self.assertGreaterEqual(len(cases), 100)
        sizes = set()
        for i, body in enumerate(cases):
            with self.subTest(i=i):
                counted = sdk.messages.count_tokens(**body).input_tokens
                usage = sdk.messages.create(**body, max_tokens=2).usage
                self.assertEqual(prompt_tokens(usage), counted)
                sizes.add(counted)
        self.assertGreater(len(sizes), 50)


class Errors(unittest.TestCase):
    def refused(self, kind, contains, **fields):
        sdk, http = client()
        fields = {"model": ALIAS, "max_tokens": 8, "messages": CODE, **fields}
        with self.assertRaises(kind) as caught:
            sdk.messages.create(**fields)
        self.assertEqual(http.sent, 1, "it was tried again")
        error = caught.exception
        self.assertEqual(error.body["type"], "error")
        self.assertIn(contains, error.body["error"]["message"])
        self.assertEqual(error.request_id, error.body["request_id"])
        return error

    def test_wrong_fields_are_bad_requests_that_name_them(self):
        bad = anthropic.BadRequestError
        error = self.refused(bad, "temperature", extra_body={"temperature": 3})
        self.assertEqual(error.body["error"]["type"], "invalid_request_error")
        self.refused(bad, "messages[0].role", messages=[{"role": "robot", "content": "x"}])
        self.refused(bad, "tools[0].input_schema", tools=[{"name": "f"}])
        self.refused(bad, "max_tokens", max_tokens=0)
        self.refused(bad, "messages", messages=[])

    def test_an_unknown_model_is_not_found(self):
        error = self.refused(anthropic.NotFoundError, "claude-unknown", model="claude-unknown")
        self.assertEqual(error.body["error"]["type"], "not_found_error")

    def test_a_prompt_beyond_the_context_says_so_in_the_known_words(self):
        long = [{"role": "user", "content": "word " * 6000}]
        error = self.refused(anthropic.BadRequestError, "prompt is too long: ", messages=long)
        self.assertRegex(error.body["error"]["message"], r"prompt is too long: \d+ tokens > \d+ maximum")

    def test_a_body_beyond_32_mb_is_too_large(self):
        self.refused(anthropic.RequestTooLargeError, "", messages=[{"role": "user", "content": "x" * (33 << 20)}])

    def test_a_wrong_key_and_a_full_queue(self):
        with Server("--api-key", "right", "--slots", "1", "--queue", "1") as server:
            sdk = anthropic.Anthropic(base_url=server.url, api_key="wrong")
            with self.assertRaises(anthropic.AuthenticationError):
                sdk.messages.create(model="", max_tokens=1, messages=CODE)
            # A bearer token is accepted like x-api-key.
            sdk = anthropic.Anthropic(base_url=server.url, auth_token="right", max_retries=0)
            codes = []

            def ask():
                try:
                    sdk.messages.create(model="", max_tokens=600, messages=CODE, stop_sequences=["\0"])
                    codes.append(200)
                except anthropic.RateLimitError as error:
                    codes.append(error.response.headers["retry-after"])

            threads = [threading.Thread(target=ask) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertIn(200, codes)
            self.assertIn("1", codes)


class Clients(unittest.TestCase):
    def test_models_are_listed_in_the_sdks_form(self):
        sdk, _ = client()
        models = list(sdk.models.list())
        self.assertIn(ALIAS, [model.id for model in models])
        one = sdk.models.retrieve(ALIAS)
        self.assertEqual((one.id, one.type, one.lifecycle), (ALIAS, "model", "active"))
        self.assertGreater(one.max_input_tokens, 1000)
        self.assertGreater(one.created_at.year, 2000)
        with self.assertRaises(anthropic.NotFoundError):
            sdk.models.retrieve("claude-unknown")

    def test_models_are_listed_in_pages_both_ways(self):
        sdk, http = client()
        whole = [model.id for model in sdk.models.list()]
        self.assertEqual(http.sent, 1)
        page = sdk.models.list(limit=1)
        self.assertEqual(([model.id for model in page.data], page.has_more), (whole[:1], True))
        self.assertEqual((page.first_id, page.last_id), (whole[0], whole[0]))
        self.assertEqual([model.id for model in page], whole)  # the SDK continues by after_id
        self.assertEqual([model.id for model in sdk.models.list(after_id=whole[0])], whole[1:])
        self.assertEqual([model.id for model in sdk.models.list(before_id=whole[-1], limit=1)], whole[-2::-1])
        last = sdk.models.list(after_id=whole[-1])
        self.assertEqual((last.data, last.has_more, last.first_id, last.last_id), ([], False, None, None))
        for wrong in ({"limit": 0}, {"limit": 1001}, {"after_id": "none"}, {"before_id": "none"},
                      {"before_id": whole[0], "after_id": whole[0]}):
            with self.assertRaises(anthropic.BadRequestError):
                sdk.models.list(**wrong)

    def test_probes_of_the_root_are_answered(self):
        for method in ("HEAD", "GET"):
            with urllib.request.urlopen(urllib.request.Request(SERVER.url + "/", method=method)) as answer:
                self.assertEqual(answer.status, 200)

    def test_small_questions_are_answered_beside_a_long_one(self):
        sdk, _ = client()
        with sdk.messages.stream(**asked(max_tokens=400, messages=CODE, temperature=1)) as long:
            next(iter(long))
            texts = [None] * 2

            def ask(i):
                texts[i] = create(messages=QUESTION, max_tokens=8).content[0].text

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertTrue(all(texts))

    def test_who_leaves_frees_the_slot(self):
        with Server("--slots", "1") as server:
            sdk = anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, timeout=60)
            with sdk.messages.stream(**asked(model="", max_tokens=3500, messages=CODE)) as stream:
                for _, event in zip(range(6), stream):
                    self.assertNotEqual(event.type, "message_stop")
            start = time.monotonic()
            sdk.messages.create(model="", max_tokens=2, messages=CODE)
            self.assertLess(time.monotonic() - start, 30)
            self.assertIn("client left", server.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
