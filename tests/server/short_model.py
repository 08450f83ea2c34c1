"""The shipped model with its lowest layers only, for tests of everything but the text: a prompt takes a third of the
time. Its text is meaningless and its MTP head drafts badly.

    with Server("--model", short_model()) as server:
"""
import atexit
import functools
import json
import os
import pathlib
import shutil
import tempfile

SHIPPED = pathlib.Path(__file__).resolve().parents[2] / "assets/qwen3.5-tiny"
LAYERS = 4  # one period: three of the gated delta rule and one of attention


@functools.cache
def short_model():
    """The folder, which lives as long as this process. It is named like the shipped model."""
    parent = pathlib.Path(tempfile.mkdtemp(prefix="foretoken-short-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    folder = parent / SHIPPED.name
    folder.mkdir()
    for file in SHIPPED.iterdir():
        if file.name != "config.json":
            os.symlink(file, folder / file.name)
    config = json.loads((SHIPPED / "config.json").read_text(encoding="utf-8"))
    config["text_config"]["num_hidden_layers"] = LAYERS
    config["text_config"]["layer_types"] = config["text_config"]["layer_types"][:LAYERS]
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return str(folder)
