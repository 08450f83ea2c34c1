#!/usr/bin/env python3
"""The order in which the router offers replicas to a request, and the names of prefixes that it uses."""
import asyncio
import pathlib
import sys
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from foretoken_ray import routing  # noqa: E402
from foretoken_ray.gateway import prefixes  # noqa: E402

CACHES = {"enabled": True, "snapshots": 3, "stored": 5}


class Router(unittest.TestCase):
    def setUp(self):
        self.router = routing.PrefixRouter.__new__(routing.PrefixRouter)
        self.router._replica_queue_len_cache = {}
        self.router.initialize_state(spread=8)
        self.replicas = {name: types.SimpleNamespace(replica_id=name, routing_stats=CACHES) for name in "abc"}

    def loads(self, **loads):
        self.router._replica_queue_len_cache = loads

    def ranks(self, *affinity, asked=(), replicas="abc"):
        request = types.SimpleNamespace(kwargs={"affinity": list(affinity), "asked": list(asked)})
        ranks = asyncio.run(self.router.choose_replicas([self.replicas[name] for name in replicas], request))
        return ["".join(replica.replica_id for replica in rank) for rank in ranks]

    def answered(self, replica, *affinity):
        request = types.SimpleNamespace(kwargs={"affinity": list(affinity), "asked": []})
        self.router.on_request_routed(request, replica, None)
        return request.kwargs["asked"]

    def test_an_unknown_prompt_goes_to_the_least_load(self):
        self.loads(a=2, b=0, c=2)
        self.assertEqual(self.ranks("x"), ["b", "ac"])

    def test_a_request_without_words_goes_to_the_least_load(self):
        self.loads(a=1)
        self.assertEqual([[one.replica_id for one in rank] for rank in asyncio.run(
            self.router.choose_replicas(list(self.replicas.values()), None))], [["b", "c"], ["a"]])

    def test_the_longest_known_prefix_decides(self):
        self.answered("a", "x")
        self.answered("c", "x", "xy")
        self.answered("a", "x")
        self.assertEqual(self.ranks("x", "xy", "xyz")[0], "c")
        self.assertEqual(self.ranks("x", "xq")[0], "a")

    def test_the_home_is_followed_by_all_for_when_it_is_full(self):
        self.answered("c", "x")
        self.loads(a=1, b=0, c=3)
        self.assertEqual(self.ranks("x"), ["c", "b", "a", "c"])

    def test_a_home_with_too_much_more_load_is_passed_over(self):
        self.answered("c", "x")
        self.loads(a=1, b=1, c=9)
        self.assertEqual(self.ranks("x")[0], "c")
        self.loads(a=1, b=1, c=10)
        self.assertEqual(self.ranks("x"), ["ab", "c"])

    def test_a_home_whose_cache_is_off_or_was_emptied_is_passed_over(self):
        self.answered("c", "x")
        for cache, first in (({"enabled": False}, "abc"), ({"snapshots": 0, "stored": 4}, "abc"),
                             ({"snapshots": 0, "stored": 0}, "c"), ({}, "c"), (CACHES, "c")):
            self.replicas["c"].routing_stats = cache
            self.assertEqual(self.ranks("x")[0], first, cache)

    def test_a_home_that_is_gone_is_forgotten(self):
        self.answered("c", "x")
        self.assertEqual(self.ranks("x", replicas="ab"), ["ab"])
        self.answered("a", "x")
        self.answered("c", "x", "xy")
        self.assertEqual(self.ranks("x", "xy", replicas="ab"), ["ab"], "c gave the last answer to x")

    def test_those_that_were_asked_are_passed_over_while_there_is_another(self):
        self.answered("c", "x")
        self.assertEqual(self.ranks("x", asked="c"), ["ab"])
        self.assertEqual(self.ranks("x", asked="abc"), ["c", "abc"])
        self.assertEqual(self.answered("b", "x"), ["b"])

    def test_it_remembers_a_bounded_number_of_names(self):
        self.answered("c", *map(str, range(routing.MAX_NAMES)))
        self.assertEqual(self.ranks("0")[0], "c")
        self.answered("c", "one more")
        self.assertEqual(len(self.router._homes), routing.MAX_NAMES)
        self.assertEqual(self.ranks("0"), ["abc"])
        self.assertEqual(self.ranks("1")[0], "c")


class Prefixes(unittest.TestCase):
    def turns(self, *texts, **more):
        roles = ("user", "assistant")
        return {"model": "m", "messages": [{"role": roles[at % 2], "content": text} for at, text in enumerate(texts)],
                **more}

    def test_a_turn_has_the_names_of_the_turns_before_it(self):
        first, second = prefixes(self.turns("a")), prefixes(self.turns("a", "b", "c"))
        self.assertEqual((len(first), len(second)), (1, 3))
        self.assertEqual(second[:1], first)

    def test_instructions_and_tools_are_a_part_of_each_name_and_no_name_of_their_own(self):
        plain = prefixes(self.turns("a"))
        for more in ({"system": "s"}, {"tools": [{"name": "t"}]}, {"model": "n"}):
            self.assertEqual(len(prefixes(self.turns("a", **more))), 1)
            self.assertNotEqual(prefixes(self.turns("a", **more)), plain, more)
        system = {"role": "system", "content": "s"}
        self.assertEqual(prefixes({"messages": [system]}), [])

    def test_texts_have_a_name_for_each_kilobyte(self):
        short, long = prefixes({"prompt": "x" * 2000}), prefixes({"prompt": "x" * 3000})
        self.assertEqual((len(short), len(long)), (2, 3))
        self.assertEqual(short[:1], long[:1])
        self.assertEqual(len(prefixes({"input": "Hello"})), 1)

    def test_odd_bodies_have_names_too(self):
        for body in ({}, {"messages": 5}, {"messages": [5]}, {"input": {}}):
            self.assertIsInstance(prefixes(body), list)


if __name__ == "__main__":
    unittest.main(verbosity=0)
