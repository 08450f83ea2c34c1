"""`foretoken pull` that is stopped, killed, or not alone; and through a proxy.

    python3 tests/hub/interrupted_test.py build/release/foretoken [CLASS]
"""

import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_hub import Answer  # noqa: E402
from pull_test import FULL, PullTest, REPO, model, safetensors  # noqa: E402


class Interrupted(PullTest):
    def setUp(self):
        super().setUp()
        self.files = {"config.json": model()["config.json"], "model.safetensors": safetensors(6_000_000, 7)}

    def begin(self, hub, *arguments):
        return subprocess.Popen(self.command(REPO, *arguments), env=self.environment(hub), stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def wait_for_ranges(self, hub, seconds):
        """Waits until pieces arrive, then `seconds` more."""
        end = time.monotonic() + 240
        while not any(r.range for r in hub.requests) and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(seconds)

    def sent(self, hub):
        return sum(r.range[1] - r.range[0] + 1 for r in hub.requests if r.range)

    def test_control_c_keeps_what_is_there(self):
        hub = self.start_hub(rate=500_000)
        process = self.begin(hub)
        self.wait_for_ranges(hub, 1.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 130, said)
        self.assertIn(b"the same command continues", said)
        partial = next(p for p in (self.repository / "blobs").iterdir() if p.name.endswith(".foretoken.incomplete"))
        self.assertNotIn(".", partial.name.removesuffix(".foretoken.incomplete"))
        listed = json.loads(subprocess.run([self.command(REPO)[0], "models", "--json"], env=self.environment(hub),
                                           capture_output=True, timeout=240, check=True).stdout)["models"]
        listed = [model for model in listed if model["place"] != "foretoken"]  # the shipped one
        self.assertEqual([(m["name"], m["tier"], m["next"]) for m in listed],
                         [(REPO, "incomplete", f"foretoken pull {REPO}")])
        self.assertGreater(listed[0]["bytes"], 100_000)
        self.assertIn("its download is unfinished", listed[0]["reason"])
        hub.rate = 0
        before = len(hub.requests)
        planned = json.loads(self.expect(0, hub, "--events").stderr.splitlines()[0])
        self.assertLess(planned["missing_bytes"], 5_900_000)
        self.check_whole(hub, fetched=set(self.files))
        again = sum(r.range[1] - r.range[0] + 1 for r in hub.requests[before:] if r.range)
        self.assertLess(again, 5_500_000)

    def test_a_pull_killed_at_random_moments_ends_right(self):
        hub = self.start_hub(rate=4_000_000)
        moments = random.Random(8)
        kills = 0
        tries = 50 if FULL else 16
        for _ in range(tries):
            process = self.begin(hub)
            try:
                process.communicate(timeout=moments.uniform(0.01, 0.9))
                shutil.rmtree(self.cache)  # it ended: from the beginning
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
        self.assertGreater(kills, tries // 2)
        hub.rate = 0
        self.expect(0, hub)
        self.check_whole(hub, fetched=set(self.files))

    def test_two_at_once_fetch_each_byte_once(self):
        hub = self.start_hub(rate=3_000_000)
        both = [self.begin(hub), self.begin(hub)]
        for process in both:
            _, said = process.communicate(timeout=240)
            self.assertEqual(process.returncode, 0, said)
        self.check_whole(hub, fetched=set(self.files))
        self.assertLess(self.sent(hub), 6_500_000)

    def test_the_other_one_is_killed(self):
        hub = self.start_hub(rate=1_500_000)
        first, second = self.begin(hub), self.begin(hub)
        time.sleep(1)
        first.kill()
        first.communicate()
        _, said = second.communicate(timeout=240)
        self.assertEqual(second.returncode, 0, said)
        self.check_whole(hub, fetched=set(self.files))

    def test_a_partial_removed_under_us_is_fetched_again(self):
        hub = self.start_hub(rate=500_000)
        process = self.begin(hub)
        self.wait_for_ranges(hub, 0.5)
        for partial in (self.repository / "blobs").glob("*.incomplete"):
            partial.unlink()
        hub.rate = 0
        _, said = process.communicate(timeout=240)
        self.assertEqual(process.returncode, 0, said)
        self.check_whole(hub, fetched=set(self.files))

    def test_a_damaged_partial_is_found(self):
        hub = self.start_hub(rate=500_000)
        process = self.begin(hub)
        self.wait_for_ranges(hub, 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=240)
        partial = next((self.repository / "blobs").glob("*.incomplete"))
        with partial.open("r+b") as file:
            file.write(b"?" * 1000)
        hub.rate = 0
        self.assertIn(b"arrived damaged; fetching it again", self.expect(0, hub).stderr)
        self.check_whole(hub, fetched=set(self.files))


class Proxy(PullTest):
    def test_an_http_proxy_is_used(self):
        hub = self.start_hub()
        proxy = self.start_hub()  # sees absolute addresses
        proxy.faults.append(lambda r: Answer(502, {}, b"seen") if r.path.startswith("http://") else None)
        self.expect_error("status 502", hub, http_proxy=proxy.endpoint, no_proxy="")
        self.assertTrue(proxy.requests)
        self.assertEqual(hub.requests, [])
        self.expect(0, hub, http_proxy=proxy.endpoint, no_proxy="127.0.0.1")


if __name__ == "__main__":
    unittest.main()
