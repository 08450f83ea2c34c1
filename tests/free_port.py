"""A port for a server that must be told its number: outside the range that the system gives to port 0 and to clients,
so that no parallel test takes it between this call and the server's start."""
import os
import random
import socket

FIRST, LAST = 20000, 32767  # Linux begins its own range at 32768


def free_port():
    dice = random.Random(os.urandom(8))
    while True:
        port = dice.randint(FIRST, LAST)
        with socket.socket() as taken:
            try:
                taken.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
