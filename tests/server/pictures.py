"""Pictures for tests: the shipped one and PNG files of any size, made without a library."""
import base64
import struct
import zlib

from server_process import ROOT

SHAPES = (ROOT / "assets/shapes.png").read_bytes()  # 192 x 128: a red circle, a blue square
SHAPES_TOKENS = 192 // 32 * 128 // 32


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, data=None, *, claim=None):
    """A PNG in shades of its columns. `data` replaces the compressed rows, `claim` the size in the header."""
    rows = b"".join(b"\0" + bytes((x * 7 + y * 3) % 256 for x in range(width)) for y in range(height)) \
        if data is None else b""
    header = struct.pack(">IIBBBBB", *(claim or (width, height)), 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) +
            chunk(b"IDAT", zlib.compress(rows) if data is None else data) + chunk(b"IEND", b""))


def tokens_of(width, height):
    """Tokens of a picture whose sides are multiples of 32 and whose size the shipped model keeps."""
    return width // 32 * height // 32


def data_uri(picture, kind="png"):
    return f"data:image/{kind};base64," + base64.b64encode(picture).decode()


def image_url(picture, **more):
    return {"type": "image_url", "image_url": {"url": data_uri(picture), **more}}
