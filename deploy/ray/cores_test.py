#!/usr/bin/env python3
"""A Ray cluster whose cores are all taken by replicas: the gateway runs and reports whether each model is ready."""
import json
import os
import pathlib
import stat
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from first_token import USUAL  # noqa: E402

os.environ.update(USUAL)  # Ray reads them when it is imported

import ray  # noqa: E402
from foretoken_ray.application import build  # noqa: E402
from ray import serve  # noqa: E402
from replica_test import PROGRAM  # noqa: E402

PORT = 16000 + os.getpid() % 2000
URL = f"http://127.0.0.1:{PORT}"
STARTS_S, ANSWERS_S = 180, 20


class AllCoresTaken(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory(prefix="ft"))
        program = pathlib.Path(cls.folder) / "foretoken"
        program.write_text(PROGRAM.format(python=sys.executable), encoding="ascii")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False,
                 logging_level="ERROR", _temp_dir=cls.folder, runtime_env={"env_vars": {"PYTHONPATH": str(HERE)}})
        cls.addClassCleanup(ray.shutdown)
        serve.start(http_options={"port": PORT})
        cls.addClassCleanup(serve.shutdown)
        models = [{"name": "first", "cpus": 2}, {"name": "second", "cpus": 1}]  # the second finds no core
        application = build({"models": models, "program": str(program)})
        serve.run_many([serve.RunTarget(application, route_prefix="/")], wait_for_applications_running=False,
                       wait_for_ingress_deployment_creation=False)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(urllib.request.Request(URL + path, data), timeout=ANSWERS_S) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            return error.code, json.loads(text) if text.startswith("{") else {"text": text}

    def chat(self, model):
        return self.ask("/v1/chat/completions", {"model": model, "messages": [{"role": "user", "content": "Hi"}]})

    def test_the_door_answers_and_a_model_without_cores_is_503(self):
        end = time.monotonic() + STARTS_S
        while self.chat("first")[0] != 200 and time.monotonic() < end:  # 404 and 503 until then; nothing hangs
            time.sleep(0.5)
        self.assertEqual(self.chat("first"), (200, {"status": "ready"}))
        self.assertEqual(ray.available_resources().get("CPU", 0), 0, "all cores are taken")
        status, body = self.chat("second")
        self.assertEqual(status, 503)
        self.assertIn("second: no replica runs", body["error"]["message"])
        status, body = self.ask("/health")
        self.assertEqual((status, body["error"]["message"]), (503, "second: no replica runs"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
