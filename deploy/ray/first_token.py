"""The time that the way through Ray adds to the first token, for each setting of Ray Serve's loops and ingress.

    .cache/ray/bin/python -W ignore deploy/ray/first_token.py [VARIANT ...]

One cluster a variant, one after the other, each with a gateway and three replicas of the shipped model. One-token
answers and /v1/models are asked in turn of a server alone and of the gateway; medians. A busy machine gives higher
figures.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ONE_LOOP = {"RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0", "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0"}
GRPC = {**ONE_LOOP, "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1", "RAY_SERVE_LOG_TO_STDERR": "0",
        "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000"}
VARIANTS = {"usual": {}, "one-loop": ONE_LOOP, "grpc": GRPC, "haproxy": {**GRPC, "RAY_SERVE_ENABLE_HA_PROXY": "1"}}
PROGRAM = str(HERE.parents[1] / "build/release/foretoken")
# A minute for the proxies: a busy machine starts Ray's processes slowly.
USUAL = {"FORETOKEN": os.environ.get("FORETOKEN", PROGRAM), "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0",
         "RAY_worker_niceness": "0",
         "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "60"}
REQUESTS = int(os.environ.get("REQUESTS", "60"))


def ask(connection, path, body=None):
    """Milliseconds until the first piece of the answer's body."""
    begin = time.monotonic()
    connection.request("POST" if body else "GET", path, body, {"Content-Type": "application/json"})
    reply = connection.getresponse()
    if body:
        while not reply.readline().startswith(b"data: {"):
            pass
    spent = 1000 * (time.monotonic() - begin)
    reply.read()
    return spent


def measure(urls):
    """-> {name: {"models": ms, "token": ms}}, medians of requests that take turns."""
    import http.client

    found = {name: {"models": [], "token": []} for name in urls}
    connections = {name: http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
                   for name, url in urls.items()}
    for number in range(REQUESTS):
        body = json.dumps({"model": "tiny", "max_tokens": 1, "seed": number, "stream": True,
                           "messages": [{"role": "user", "content": "Hi"}]})
        for name, connection in connections.items():
            found[name]["models"].append(ask(connection, "/v1/models"))
            found[name]["token"].append(ask(connection, "/v1/chat/completions", body))
    return {name: {kind: round(statistics.median(times[5:]), 1) for kind, times in kinds.items()}
            for name, kinds in found.items()}


def one(variant):
    import ray
    from ray import serve

    sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests/server")]
    from foretoken_ray.application import build
    from server_process import Server

    port = 18000 + os.getpid() % 2000
    flags = {"slots": 4, "cache-mb": 128, "calibration": "measure"}
    with tempfile.TemporaryDirectory(prefix="ft") as folder:
        ray.init(num_cpus=16, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False,
                 logging_level="ERROR", _temp_dir=folder,
                 runtime_env={"env_vars": {"PYTHONPATH": str(HERE), **VARIANTS[variant]}})
        serve.start(http_options={"port": port})
        serve.run(build({"models": [{"name": "tiny", "replicas": {"least": 3, "most": 3}, "cpus": 1, "flags": flags}]}),
                  route_prefix="/")
        with Server("--slots", "4", "--alias", "tiny") as alone:
            print(json.dumps(measure({"alone": alone.url, "gateway": f"http://127.0.0.1:{port}"})), flush=True)
        serve.shutdown()
        ray.shutdown()


def main():
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
        return
    print(f"medians of {REQUESTS} in ms: /v1/models and the first token, alone and through the gateway")
    for variant in sys.argv[1:] or VARIANTS:
        done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", variant], capture_output=True,
                              text=True, env={**os.environ, **USUAL, **VARIANTS[variant]}, check=False)
        if done.returncode != 0:
            print(f"{variant:9} failed: {done.stderr[-4000:]}")
            continue
        # Ray writes to the same place.
        found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith('{"alone"')))
        alone, gateway = found["alone"], found["gateway"]
        print(f"{variant:9} /v1/models {alone['models']:5} {gateway['models']:5}   first token {alone['token']:5} "
              f"{gateway['token']:5}   added {gateway['token'] - alone['token']:5.1f}", flush=True)


if __name__ == "__main__":
    main()
