"""The task of every framework's file: the weather of a city, as a call or as an object; where the server is; the
run of a file's tests.

A file defines functions `test_*`; each does one thing with the server through the framework and asserts its
result. `main()` runs them and prints one line for each.
"""
import asyncio
import os
import sys
import time
import traceback
from typing import Literal

from pydantic import BaseModel

URL = os.environ["SERVER_URL"]
BASE = URL + "/v1"
KEY = os.environ["SERVER_KEY"]
MODEL = os.environ["SERVER_MODEL"]
QUESTION = "What is the weather in Oslo?"
CITIES = ("Oslo", "Rome")
NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}


class Weather(BaseModel):
    """The weather of a city."""
    city: Literal["Oslo", "Rome"]
    sunny: bool


def check(weather):
    """`weather` is of the schema, as an object, a model or keyword arguments."""
    found = weather if isinstance(weather, dict) else weather.model_dump()
    assert set(found) == {"city", "sunny"}, found
    assert found["city"] in CITIES and isinstance(found["sunny"], bool), found


def get_weather(city: Literal["Oslo", "Rome"], sunny: bool) -> str:
    """Get the weather of a city.

    Args:
        city: The city.
        sunny: Whether to ask for sunshine.
    """
    check({"city": city, "sunny": sunny})
    CALLS.append(city)
    return "11 degrees"


CALLS = []  # of get_weather
LOOP = asyncio.new_event_loop()  # one for all tests, since clients keep their connections


def run(coroutine):
    return LOOP.run_until_complete(coroutine)


def main(names):
    failed = 0
    for name, test in list(names.items()):
        if not name.startswith("test_"):
            continue
        CALLS.clear()
        start = time.monotonic()
        try:
            test()
            print(f"  ok   {name} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:  # one failure must not hide the others
            failed += 1
            traceback.print_exc(limit=-6)
            print(f"  FAIL {name}", flush=True)
    sys.exit(1 if failed else 0)
