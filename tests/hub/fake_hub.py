"""A hub on two ports of this machine, which misbehaves as told: the endpoint, and the host of large files.

    hub = FakeHub({"org/name": {"config.json": b"{}", "model.safetensors": b"..."}})
    with hub: ... hub.endpoint ...

Faults are set on the object: `faults` is a list of functions (Request) -> None or an Answer to send instead.
Every request is kept in `requests`, with its headers, so that a leaked token is seen.
"""

import dataclasses
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

LARGE = 1000  # files of this size or more are in LFS, served by the other host


@dataclasses.dataclass
class Request:
    host: str  # "hub" or "cdn"
    method: str
    path: str
    headers: dict
    range: tuple | None = None  # (first, last)


@dataclasses.dataclass
class Answer:
    status: int = 200
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = b""
    announce: int | None = None  # Content-Length, if not the body's
    cut: int | None = None  # the connection dies after this many bytes of the body
    delay_s: float = 0  # before the body
    rate: int = 0  # bytes a second; 0: no limit


class Hole:
    """A file of any size that begins with `start`; the rest is the numbers 1 in bf16. Its hash is not the true one."""

    def __init__(self, start, size):
        self.start, self.size = start, size

    def __len__(self):
        return self.size

    def __getitem__(self, span):
        first, last, _ = span.indices(self.size)
        rest = max(0, last - max(first, len(self.start)))
        odd = (max(first, len(self.start)) - len(self.start)) % 2
        return self.start[first:last] + (b"\x80\x3f" * (rest // 2 + 1))[odd:odd + rest]


def sha256(data):
    if isinstance(data, Hole):
        data = b"%d " % data.size + data.start
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    if isinstance(data, Hole):
        return sha256(data)[:40]
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def entry(path, data):
    found = {"type": "file", "path": path, "size": len(data), "oid": git_sha1(data)}
    if len(data) >= LARGE:
        found["oid"] = git_sha1(b"pointer of " + sha256(data).encode())
        found["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 130}
    return found


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # the client has left


class FakeHub:
    def __init__(self, repositories, commit="a" * 40, page=1000, rate=0):
        self.repositories = repositories
        self.commit = commit
        self.page = page
        self.rate = rate
        self.faults = []
        self.requests = []
        self.lock = threading.Lock()
        self.servers = {}
        self.gated = False  # of every repository: False, "auto" or "manual"
        self.signature = 0  # part of a signed URL; a higher one makes older URLs expire

    def __enter__(self):
        for name in ("hub", "cdn"):
            server = Quiet(("127.0.0.1", 0), self.handler(name))
            self.servers[name] = server
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.shutdown()
            server.server_close()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self.servers['hub'].server_port}"

    @property
    def cdn(self):
        return f"http://127.0.0.1:{self.servers['cdn'].server_port}"

    def fault_once(self, wanted, answer, times=1):
        """Sends `answer` (or calls it) to the next `times` requests for which wanted(request) is true."""
        left = [times]

        def fault(request):
            if left[0] <= 0 or not wanted(request):
                return None
            left[0] -= 1
            return answer(request) if callable(answer) else answer

        self.faults.append(fault)

    def answer(self, request):
        for fault in self.faults:
            given = fault(request)
            if given is not None:
                return given
        return self.from_cdn(request) if request.host == "cdn" else self.from_hub(request)

    def from_cdn(self, request):
        url = urllib.parse.urlsplit(request.path)
        signature = int(urllib.parse.parse_qs(url.query).get("signature", ["-1"])[0])
        if signature != self.signature:
            return Answer(403, {}, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
        for files in self.repositories.values():
            for data in files.values():
                if url.path == "/" + sha256(data):
                    return self.ranged(request, data)
        return Answer(404)

    def ranged(self, request, data):
        if request.range is None:
            return Answer(200, {}, data, rate=self.rate)
        first, last = request.range
        if first >= len(data):
            return Answer(416, {"Content-Range": f"bytes */{len(data)}"})
        last = min(last, len(data) - 1)
        return Answer(206, {"Content-Range": f"bytes {first}-{last}/{len(data)}"}, data[first : last + 1],
                      rate=self.rate)

    def from_hub(self, request):
        url = urllib.parse.urlsplit(request.path)
        parts = [urllib.parse.unquote(part) for part in url.path.strip("/").split("/")]
        if parts[:2] == ["api", "models"] and len(parts) >= 5:
            return self.api("/".join(parts[2:4]), parts[4:], url)
        if len(parts) >= 5 and parts[2] == "resolve":
            return self.resolve(request, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        if parts[:2] == ["api", "resolve-cache"]:
            return self.resolve(request, "/".join(parts[3:5]), parts[5], "/".join(parts[6:]), cached=True)
        return Answer(404, {"X-Error-Code": "RepoNotFound"})

    def api(self, name, rest, url):
        if name not in self.repositories:
            return Answer(401, {"X-Error-Code": "RepoNotFound"}, b'{"error":"Repository not found"}')
        if rest[0] == "refs":
            return self.json({"branches": [{"name": "main"}, {"name": "dev"}], "tags": [{"name": "v1"}]})
        if rest[0] == "revision" and rest[1] not in ("main", "refs/pr/1"):
            return Answer(404, {"X-Error-Code": "RevisionNotFound"}, b"{}")
        if rest[0] == "revision":
            return self.json({"id": name, "sha": self.commit, "gated": self.gated})
        begin = int(urllib.parse.parse_qs(url.query).get("cursor", ["0"])[0])
        files = [entry(path, data) for path, data in self.repositories[name].items()]
        answer = self.json(files[begin : begin + self.page])
        if begin + self.page < len(files):
            # A mirror passes on the links of the hub that it mirrors.
            answer.headers["Link"] = (f'<https://hub.invalid/api/models/{name}/tree/{self.commit}?recursive=true'
                                      f'&expand=false&cursor={begin + self.page}>; rel="next"')
        return answer

    def resolve(self, request, name, commit, path, cached=False):
        data = self.repositories.get(name, {}).get(path)
        if data is None:
            return Answer(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": self.commit})
        headers = {"X-Repo-Commit": self.commit, "ETag": f'"{git_sha1(data)}"'}
        if len(data) >= LARGE:
            location = f"{self.cdn}/{sha256(data)}?signature={self.signature}"
            headers |= {"Location": location, "X-Linked-Etag": f'"{sha256(data)}"', "X-Linked-Size": str(len(data))}
            return Answer(302, headers)
        if not cached:
            headers["Location"] = "/api/resolve-cache/models/" + urllib.parse.quote(f"{name}/{commit}/{path}")
            return Answer(307, headers)
        return Answer(200, headers, data)

    @staticmethod
    def json(value):
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(value).encode())

    def handler(hub, host):  # pylint: disable=no-self-argument
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.serve()

            def do_GET(self):
                self.serve()

            def serve(self):
                wanted = self.headers.get("Range")
                span = tuple(int(x) for x in wanted[6:].split("-")) if wanted else None
                request = Request(host, self.command, self.path, dict(self.headers), span)
                with hub.lock:
                    hub.requests.append(request)
                    answer = hub.answer(request)
                try:
                    self.send(answer)
                except OSError:
                    self.close_connection = True

            def send(self, answer):
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                length = len(answer.body) if answer.announce is None else answer.announce
                self.send_header("Content-Length", str(length))
                self.end_headers()
                if self.command == "HEAD":
                    return
                self.wfile.flush()
                time.sleep(answer.delay_s)
                body = answer.body if answer.cut is None else answer.body[: answer.cut]
                step = max(answer.rate // 20, 1) if answer.rate else len(body) or 1
                for at in range(0, len(body), step):
                    self.wfile.write(body[at : at + step])
                    if answer.rate:
                        self.wfile.flush()
                        time.sleep(0.05)
                if answer.cut is not None or length != len(body):
                    self.close_connection = True
                    self.connection.close()

        return Handler
