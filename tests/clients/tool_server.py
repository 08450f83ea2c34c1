"""A tool server of the model context protocol on standard input and output, for clients that are recorded:
one tool with nested parameters, one that returns a picture."""
import json
import pathlib
import sys
import base64

TOOLS = [
    {"name": "find_orders", "description": "Finds orders of the shop",
     "inputSchema": {"type": "object", "required": ["filter"], "$defs": {"Unit": {"enum": ["day", "week"]}},
                     "properties": {"filter": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                                    "per": {"$ref": "#/$defs/Unit"},
                                    "limit": {"type": "integer", "minimum": 1, "default": 10},
                                    "tags": {"type": "array", "items": {"type": "string"}}}}},
    {"name": "take_picture", "description": "Takes a picture of the shop",
     "inputSchema": {"type": "object", "properties": {}}},
]


def answer(message):
    method, parameters = message["method"], message.get("params") or {}
    if method == "initialize":
        return {"protocolVersion": parameters.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}}, "serverInfo": {"name": "shop", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and parameters["name"] == "take_picture":
        data = base64.b64encode(pathlib.Path("shapes.png").read_bytes()).decode()
        return {"content": [{"type": "text", "text": "Here:"},
                            {"type": "image", "data": data, "mimeType": "image/png"}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "Two orders: 17, 18."}]}
    return {}


for line in sys.stdin:
    given = json.loads(line)
    if "id" in given:
        print(json.dumps({"jsonrpc": "2.0", "id": given["id"], "result": answer(given)}), flush=True)
