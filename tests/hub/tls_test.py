"""`foretoken pull` over TLS, with the network's own certificate authority, and through a CONNECT proxy.

    python3 tests/hub/tls_test.py build/release/foretoken [CLASS]
"""

import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fake_hub import FakeHub  # noqa: E402
from pull_test import PullTest, REPO  # noqa: E402


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_certificates(folder):
    """-> ca.pem, and the chain and key of `localhost` that it signed."""
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", folder / "ca.key", "-out", folder / "ca.pem", "-days", 2,
            "-subj", "/CN=Inspecting Proxy of the Office")
    openssl("req", *key, "-keyout", folder / "server.key", "-out", folder / "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost")
    openssl("x509", "-req", "-in", folder / "server.csr", "-CA", folder / "ca.pem", "-CAkey", folder / "ca.key",
            "-CAcreateserial", "-out", folder / "server.pem", "-days", 2, "-extfile", folder / "names")


class TlsHub(FakeHub):
    """Both hosts over TLS, under the name localhost."""

    def __init__(self, repositories, certificates):
        super().__init__(repositories)
        self.certificates = certificates

    def __enter__(self):
        super().__enter__()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates / "server.pem", self.certificates / "server.key")
        for server in self.servers.values():
            # A handshake that fails ends only its connection, in its thread.
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        return self

    @property
    def endpoint(self):
        return f"https://localhost:{self.servers['hub'].server_port}"

    @property
    def cdn(self):
        return f"https://localhost:{self.servers['cdn'].server_port}"


class ConnectProxy:
    """Forwards CONNECT if the client knows the password, and records the destination."""

    def __init__(self, authorisation=None):
        self.authorisation = authorisation
        self.asked = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            more = client.recv(4096)
            if not more:
                return
            head += more
        lines = head.decode().split("\r\n")
        self.asked.append(lines[0])
        if self.authorisation and f"Proxy-Authorization: {self.authorisation}" not in lines:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            client.close()
            return
        host, _, port = lines[0].split()[1].rpartition(":")
        upstream = socket.create_connection((host, int(port)))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=self.copy, args=(upstream, client), daemon=True).start()
        self.copy(client, upstream)

    @staticmethod
    def copy(source, target):
        try:
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.close()


@unittest.skipUnless(shutil.which("openssl"), "needs the program openssl")
class Tls(PullTest):
    def setUp(self):
        super().setUp()
        make_certificates(self.folder)
        self.hub = self.enterContext(TlsHub({REPO: self.files}, self.folder))
        self.ca = str(self.folder / "ca.pem")

    def test_an_unknown_authority_is_refused_by_name_and_says_the_flag(self):
        said = self.expect_error("--ca-file", self.hub)
        self.assertIn("certificate", said)
        self.assertEqual(self.hub.requests, [])

    def test_the_flag_and_the_usual_variables_name_it(self):
        self.expect(0, self.hub, "--ca-file", self.ca, HF_TOKEN="hf_secret")
        self.check_whole(self.hub)
        for request in self.hub.requests:
            self.assertEqual("Authorization" in request.headers, request.host == "hub", request.path)
        for name in ("SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE"):
            shutil.rmtree(self.cache)
            self.expect(0, self.hub, **{name: self.ca})
            self.check_whole(self.hub)

    def test_another_name_is_refused(self):
        self.expect_error("127.0.0.1", self.hub, "--ca-file", self.ca,
                          HF_ENDPOINT=self.hub.endpoint.replace("localhost", "127.0.0.1"))
        self.assertEqual(self.hub.requests, [])

    def test_a_proxy_carries_it_unread(self):
        proxy = ConnectProxy()
        self.addCleanup(proxy.close)
        self.expect(0, self.hub, "--ca-file", self.ca, https_proxy=f"http://127.0.0.1:{proxy.port}", no_proxy="")
        self.check_whole(self.hub)
        wanted = {f"CONNECT localhost:{server.server_port} HTTP/1.1" for server in self.hub.servers.values()}
        self.assertEqual(set(proxy.asked), wanted)

    def test_a_proxy_with_a_password(self):
        proxy = ConnectProxy("Basic dXNlcjpwYXNzd29yZA==")  # user:password
        self.addCleanup(proxy.close)
        said = self.expect_error("the proxy refuses the connection with status 407; set https_proxy", self.hub,
                                 "--ca-file", self.ca, no_proxy="",
                                 https_proxy=f"http://user:wrong@127.0.0.1:{proxy.port}")
        self.assertNotIn("wrong", said)
        self.assertEqual(len(proxy.asked), 1, "a refusal does not pass by itself")
        self.expect(0, self.hub, "--ca-file", self.ca, no_proxy="",
                    https_proxy=f"http://user:password@127.0.0.1:{proxy.port}")
        self.check_whole(self.hub)


if __name__ == "__main__":
    unittest.main()
