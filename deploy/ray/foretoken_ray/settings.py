"""The settings of an application: its models, their replicas and the resources of each; keys; `resume`."""
import os
from typing import Optional, Union

from pydantic import BaseModel, Field, model_validator


class Replicas(BaseModel, extra="forbid"):
    """Between `least` and `most`, so that each has about `ongoing` requests and none waits above `queue_s`."""

    least: int = Field(1, ge=0)
    most: int = Field(1, ge=1)
    ongoing: float = Field(6, gt=0, description="requests of one replica; below the flag --slots (default 8)")
    queue_s: float = Field(2, gt=0, description="mean wait for a slot that asks for one more replica")
    up_s: float = Field(10, ge=0)
    down_s: float = Field(300, ge=0)


class Model(BaseModel, extra="forbid"):
    name: str = Field(description="the `model` of requests")
    model: Optional[str] = Field(None, description="what --model takes; none: the shipped model")
    replicas: Replicas = Replicas()
    cpus: float = Field(1, ge=0, description="CPUs that Ray reserves for a replica, also its --threads")
    gpus: float = Field(0, ge=0)
    resources: dict[str, float] = Field({}, description="Ray's own resources, to choose nodes")
    flags: dict[str, Union[str, int, float]] = Field({}, description="further flags of serve, without --")
    waiting: int = Field(64, ge=1, description="requests of one replica at most, running and waiting")


class Settings(BaseModel, extra="forbid"):
    models: list[Model] = Field(min_length=1)
    resume: bool = Field(False, description="an answer whose replica died continues on another one")
    retries: int = Field(5, ge=0, description="of a request whose replica died before it answered")
    start_s: float = Field(120, ge=0, description="seconds that a request waits for a replica that starts")
    api_key_file: Optional[str] = Field(None, description="one key a line; none: no keys")
    gateways: int = Field(1, ge=1, description="gateways: processes that check keys, choose replicas and pass streams")
    program: str = Field(os.environ.get("FORETOKEN", "foretoken"), description="on every node")

    @model_validator(mode="after")
    def _named(self) -> "Settings":
        if len(names := [model.name for model in self.models]) != len(set(names)):
            raise ValueError(f"two models have one name: {', '.join(names)}; give each another one")
        if any(one.replicas.least > one.replicas.most for one in self.models):
            raise ValueError("least is above most; raise most")
        return self
