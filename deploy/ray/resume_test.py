#!/usr/bin/env python3
"""A resumed stream: the client gets the first answer's stream, or a clear end."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from foretoken_ray.resume import Different, Replay  # noqa: E402


def chunk(number, text, name="chatcmpl-a", **more):
    body = {"id": name, "created": number, "choices": [{"index": 0, "delta": {"content": text, **more}}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class Resume(unittest.TestCase):
    def setUp(self):
        self.replay = Replay()
        self.first = [self.replay.next(chunk(1, text)) for text in ("The", " capital")]

    def test_the_first_attempt_passes_unchanged(self):
        self.assertEqual(self.first, [chunk(1, "The"), chunk(1, " capital")])

    def test_what_the_client_has_is_dropped_and_the_rest_has_the_first_name(self):
        self.replay.again()
        again = [self.replay.next(chunk(9, text, "chatcmpl-b")) for text in ("The", " capital", " is")]
        self.assertEqual(again, [None, None, chunk(9, " is", "chatcmpl-a")])

    def test_it_continues_twice(self):
        for name in ("chatcmpl-b", "chatcmpl-c"):
            self.replay.again()
            for text in ("The", " capital"):
                self.assertIsNone(self.replay.next(chunk(9, text, name)))
        self.assertIn(b"chatcmpl-a", self.replay.next(chunk(9, " is", "chatcmpl-c")))

    def test_another_text_is_refused(self):
        self.replay.again()
        with self.assertRaises(Different):
            self.replay.next(chunk(1, "A"))

    def test_another_form_is_refused(self):
        self.replay.again()
        with self.assertRaises(Different):
            self.replay.next(chunk(1, "The", role="assistant"))

    def test_an_end_where_a_token_was_is_refused(self):
        self.replay.again()
        with self.assertRaises(Different):
            self.replay.next(b"data: [DONE]\n\n")

    def test_names_inside_of_events_are_kept(self):
        replay = Replay()
        call = {"tool_calls": [{"index": 0, "id": "call_1"}]}
        replay.next(chunk(1, None, **call))
        replay.again()
        self.assertIsNone(replay.next(chunk(1, None, **{"tool_calls": [{"index": 0, "id": "call_2"}]})))
        self.assertIn(b'"call_1"', replay.next(chunk(1, None, **{"tool_calls": [{"index": 0, "id": "call_2"}]})))

    def test_events_with_a_type_are_compared_by_their_data(self):
        replay = Replay()
        event = b'event: content_block_delta\ndata: {"index": 0, "delta": {"text": "The"}}\n\n'
        replay.next(event)
        replay.again()
        self.assertIsNone(replay.next(event))
        replay.again()
        with self.assertRaises(Different):
            replay.next(event.replace(b"The", b"A"))


if __name__ == "__main__":
    unittest.main(verbosity=0)
