#!/usr/bin/env python3
"""A replica without Ray, around a program that can lose its backend; and the size of the application."""
import asyncio
import pathlib
import stat
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from foretoken_ray.replica import Replica  # noqa: E402
from foretoken_ray.settings import Model  # noqa: E402

# Says what `foretoken serve --json` says. After POST /lose, /health answers 503, as after a lost device.
PROGRAM = """#!{python}
import http.server, json, os
class Handler(http.server.BaseHTTPRequestHandler):
    lost = False
    def reply(self):
        if self.headers["Authorization"] != "Bearer " + os.environ["FORETOKEN_API_KEY"]:
            return self.send_error(401)
        Handler.lost |= self.path == "/lose"
        body = json.dumps({{"status": "lost" if Handler.lost else "ready"}}).encode()
        self.send_response(503 if Handler.lost and self.path == "/health" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_POST = reply
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(json.dumps({{"url": f"http://127.0.0.1:{{server.server_port}}/"}}), flush=True)
server.serve_forever()
"""


class Health(unittest.TestCase):
    def test_a_lost_backend_is_what_health_checks_see(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "foretoken"
            program.write_text(PROGRAM.format(python=sys.executable), encoding="ascii")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
            asyncio.run(self.lose(str(program)))

    async def lose(self, program):
        replica = Replica.__new__(Replica)
        await replica.__init__(Model(name="tiny"), program)
        try:
            await replica.check_health()
            head, *_ = [piece async for piece in replica.answer("POST", "/lose?", {}, b"", [])]
            self.assertEqual(head["status"], 200)
            with self.assertRaisesRegex(RuntimeError, "/health answers 503.*lost"):
                await replica.check_health()
            await replica._session.close()
        finally:
            replica.__del__()


class Size(unittest.TestCase):
    def test_the_application_has_at_most_400_lines(self):
        files = sorted((HERE / "foretoken_ray").glob("*.py"))
        lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        self.assertGreater(len(lines), 0)
        self.assertLessEqual(len(lines), 400, "without blank lines")


if __name__ == "__main__":
    unittest.main(verbosity=0)
