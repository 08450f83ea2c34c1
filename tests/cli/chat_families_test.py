"""`foretoken chat` in a pseudo-terminal with a small random model of each family: two turns of one conversation.

    python3 tests/cli/chat_families_test.py build/release/foretoken
"""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from start_test import CONTROL_D, PROGRAM, ROOT, Screen, StartTest  # noqa: E402

GOLDEN, STYLES = ROOT / "tests/golden", ROOT / "tests/golden/text/templates"
# Shape of `foretoken synth`, and the template in place of the shipped one.
SYNTHETIC = {"qwen3_5": ("tiny", None), "qwen3_5_moe": ("tiny-experts", "qwen36_style"),
             "qwen3_next": ("tiny-next", None), "glm4_moe": ("tiny-glm", "glm45_style"),
             "llama": ("smollm2-135m", None), "granite": ("smollm2-135m", "granite_style"),
             "mistral": ("smollm2-135m", "mistral_style"), "qwen3": ("qwen3-0.6b", None)}
WHOLE = {"gpt_oss": GOLDEN / "gpt_oss/mxfp4", "gemma4": GOLDEN / "gemma4/odd"}


class Chat(StartTest):
    def model(self, family):
        folder = self.models / family
        if family in WHOLE:
            shutil.copytree(WHOLE[family], folder, copy_function=shutil.copyfile)
            return folder
        shape, style = SYNTHETIC[family]
        layers = ["--layers", "2"] if not shape.startswith("tiny") else []
        subprocess.run([PROGRAM, "synth", "--shape", shape, *layers, "--out", folder, "--quiet"], check=True,
                       env=self.environment, timeout=300)
        if style:
            shutil.copyfile(STYLES / f"{style}.jinja", folder / "chat_template.jinja")
        return folder

    def test_every_family_talks_in_two_turns(self):
        for family in (*SYNTHETIC, *WHOLE):
            with self.subTest(family):
                screen = Screen(["chat", "--model", str(self.model(family)), "-n", "12", "-c", "512", "--temperature",
                                 "0"], self.environment)
                self.addCleanup(screen.stop)
                screen.wait("Ctrl-D to leave")
                for question in ("Say hello.", "Again, please."):
                    screen.send(question + "\n")
                    answered = screen.wait("tokens/s")
                    self.assertNotIn("foretoken:", answered)
                    tokens = re.search(r"\[(\d+) tokens, ", re.sub(r"\x1b\[[0-9;]*m", "", answered))
                    self.assertIsNotNone(tokens, answered)
                    self.assertGreater(int(tokens[1]), 0, answered)
                screen.send(CONTROL_D)
                self.assertEqual(screen.end(), 0, screen.text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
