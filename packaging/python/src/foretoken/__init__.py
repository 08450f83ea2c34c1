"""foretoken: local language models with exact speculative decoding.

    foretoken.generate("What is the capital of France?").text     # starts a server and keeps it
    with foretoken.Server(model="models/Qwen3.5-4B") as server:   # base_url for every client of OpenAI
        server.generate("Hello"), server.stream("Hello")
"""
from ._answers import Answer, ForetokenError, RequestError
from ._server import Server, StartError, generate, program, stream

__all__ = ["Answer", "ForetokenError", "RequestError", "Server", "StartError", "generate", "program", "stream"]
