"""`serve run foretoken_ray.application:build config=FILE.yaml`, or build({"models": [...]}) in Python."""
import math
from pathlib import Path
from typing import Any

import yaml
from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy, RequestRouterConfig

from .gateway import Gateway
from .replica import GRACE_S, Replica
from .routing import PrefixRouter
from .settings import Model, Settings


def enough_replicas(context: AutoscalingContext, queue_s: float = 2) -> tuple[int, dict[str, Any]]:
    """As many as the ongoing requests need; one more where requests wait too long for a slot."""
    wanted = math.ceil(context.total_num_requests / context.config.target_ongoing_requests)
    late = any(wait > queue_s for wait in (context.aggregated_metrics or {}).get("queue_s", {}).values())
    return max(wanted, context.current_num_replicas + 1) if late else wanted, {}


def _replicas(model: Model, program: str) -> Application:
    wanted = model.replicas
    scaling = AutoscalingConfig(
        min_replicas=wanted.least, max_replicas=wanted.most, initial_replicas=max(1, wanted.least),
        target_ongoing_requests=wanted.ongoing, upscale_delay_s=wanted.up_s, downscale_delay_s=wanted.down_s,
        policy=AutoscalingPolicy(policy_function=enough_replicas, policy_kwargs={"queue_s": wanted.queue_s}))
    return serve.deployment(
        Replica, name=f"model-{model.name}", autoscaling_config=scaling,
        request_router_config=RequestRouterConfig(request_router_class=PrefixRouter, request_routing_stats_period_s=2),
        max_ongoing_requests=model.waiting, max_queued_requests=4 * model.waiting, health_check_period_s=2,
        health_check_timeout_s=10, graceful_shutdown_timeout_s=GRACE_S, graceful_shutdown_wait_loop_s=1,
        ray_actor_options={"num_cpus": model.cpus, "num_gpus": model.gpus, "resources": model.resources},
    ).bind(model, program)


def build(arguments: dict[str, Any]) -> Application:
    if "config" in arguments:
        arguments = yaml.safe_load(Path(arguments["config"]).read_text(encoding="utf-8"))
    settings = Settings.model_validate(arguments)
    handles = {model.name: _replicas(model, settings.program) for model in settings.models}
    # The gateway reserves no core: replicas may take all of them, and clients must hear that they wait for one.
    return serve.deployment(Gateway, name="gateway", num_replicas=settings.gateways, max_ongoing_requests=4096,
                            graceful_shutdown_timeout_s=GRACE_S, ray_actor_options={"num_cpus": 0},
                            ).bind(settings, handles)
