#!/usr/bin/env python3
"""A model whose weights do not fit into the memory that it may use: refused with a next step, or run from the page
cache of a packed-weight file with a warning. Standard library only.

    page_cache_test.py PROGRAM
"""
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from raw_client import Client, chat  # noqa: E402
from server_process import Server  # noqa: E402

SMALL = ("--slots", "1", "--cache-mb", "0", "--context", "512", "--max-pixels", "4096")


def answer(server):
    with Client(server.url, timeout=120) as client:
        client.post("/v1/chat/completions", chat("Write a function that adds two numbers.", max_tokens=24))
        status, _, text = client.answer()
        assert status == 200, text
        return json.loads(text)["choices"][0]["message"]["content"]


class PageCache(unittest.TestCase):
    def limit(self, *flags):
        """The smallest limit in MB that these flags start with, and the refusal one below."""
        refused, least, refusal = 0, 200, ""
        while least - refused > 1:
            megabytes = (refused + least) // 2
            server = Server(*SMALL, "--memory-mb", str(megabytes), *flags)
            try:
                server.start()
            except RuntimeError as error:
                refused, refusal = megabytes, str(error)
                continue
            server.stop()
            least = megabytes
        self.assertLess(least, 200, f"it never starts: {refusal}")
        return least, refusal

    def test_weights_that_do_not_fit_are_refused_or_read_from_the_page_cache(self):
        with tempfile.TemporaryDirectory() as folder:
            flags = ("--packed-weights", folder)
            least, refusal = self.limit(*flags)
            self.assertIn("GB of memory, but", refusal)
            with self.assertRaises(RuntimeError) as refused:
                Server(*SMALL, "--memory-mb", str(least)).start()
            self.assertIn("--packed-weights auto", str(refused.exception))
            with Server(*SMALL) as server:
                wanted = answer(server)
                self.assertNotIn("page cache", server.log())
            with Server(*SMALL, "--memory-mb", str(least), *flags) as server:
                self.assertRegex(server.log(), r"stay in the page cache: each token reads \d+\.\d+ GB")
                self.assertEqual(answer(server), wanted)


if __name__ == "__main__":
    os.environ["FORETOKEN"] = sys.argv.pop(1)
    unittest.main()
