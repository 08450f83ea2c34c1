"""HTTP over a raw socket, for tests that check every byte, and functions to build and read messages."""
import json
import re
import socket


def chat(text="Hello", **more):
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, **more}


class Client:
    """One connection and the bytes received on it."""

    def __init__(self, url, timeout=240):
        host, port = re.fullmatch(r"http://(.*):(\d+)", url).groups()
        self.socket = socket.create_connection((host, int(port)), timeout=timeout)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def post(self, path, body, headers=(), version="1.1"):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"POST {path} HTTP/{version}", "Host: localhost", f"Content-Length: {len(data)}", *headers]
        self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + data)

    def get(self, path, headers=(), method="GET"):
        self.send("\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers]).encode() + b"\r\n\r\n")

    def until(self, mark):
        while mark not in self.received:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError(self.received)
            self.received += piece
        cut = self.received.index(mark) + len(mark)
        head, self.received = self.received[:cut], self.received[cut:]
        return head

    def exactly(self, size):
        while len(self.received) < size:
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError(self.received)
            self.received += piece
        body, self.received = self.received[:size], self.received[size:]
        return body

    def head(self):
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        return int(lines[0].split()[1]), fields

    def answer(self, has_body=True):
        status, fields = self.head()
        body = b""
        if fields.get("transfer-encoding") == "chunked":
            while True:
                size = int(self.until(b"\r\n"), 16)
                body += self.exactly(size + 2)[:size]
                if size == 0:
                    break
        elif has_body and "content-length" in fields:
            body = self.exactly(int(fields["content-length"]))
        return status, fields, body

    def rest(self):
        """The remaining bytes until the server closes the connection."""
        while piece := self.socket.recv(65536):
            self.received += piece
        return self.received

    def closed(self):
        """True once the server has closed the connection."""
        try:
            while True:
                if not self.socket.recv(65536):
                    return True
        except ConnectionError:
            return True
        except TimeoutError:
            return False


def frames(body):
    """The data of a stream's frames without [DONE]; every frame must be JSON."""
    parts = [part for part in body.decode().split("\n\n") if part and not part.startswith(":")]
    assert parts[-1] == "data: [DONE]", parts[-1]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-1]]


def text_of(stream):
    return "".join(c["delta"].get("content") or "" for frame in stream for c in frame["choices"])
