"""Which replica gets a request: the one that has computed the longest part of its prompt, else the least loaded.

A request carries the names of its prefixes, shortest first (door.py: prefixes). The router remembers which replica
answered each name last. Conversations stick, because each turn begins with all turns before it. A replica whose
cache is off or was emptied (`/v1/cache`), or that has `spread` more requests than the least loaded, is passed over.
"""
from __future__ import annotations

from collections import OrderedDict
from typing import Optional

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

MAX_NAMES = 100_000


class PrefixRouter(RequestRouter):
    def initialize_state(self, spread: int = 8) -> None:
        self._spread = spread
        self._homes: OrderedDict[str, ReplicaID] = OrderedDict()

    def _load(self, replica: RunningReplica) -> int:
        return self._replica_queue_len_cache.get(replica.replica_id) or 0

    async def choose_replicas(self, candidate_replicas: list[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> list[list[RunningReplica]]:
        """Ranks: Serve takes the next one if all replicas of a rank are full."""
        by_load: dict[int, list[RunningReplica]] = {}
        for replica in candidate_replicas:
            by_load.setdefault(self._load(replica), []).append(replica)
        ranks = [by_load[load] for load in sorted(by_load)]
        home = self._home(candidate_replicas, pending_request, min(by_load, default=0))
        return [[home], *ranks] if home is not None else ranks

    def _home(self, candidates: list[RunningReplica], request: Optional[PendingRequest],
              least: int) -> Optional[RunningReplica]:
        alive = {replica.replica_id: replica for replica in candidates}
        for name in reversed(request.kwargs.get("affinity", ()) if request else ()):
            replica = alive.get(self._homes.get(name))
            if replica is not None:
                cache = replica.routing_stats
                emptied = cache.get("stored", 0) > 0 and cache.get("snapshots", 1) == 0
                useful = cache.get("enabled", True) and not emptied
                return replica if useful and self._load(replica) <= least + self._spread else None
        return None

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: object) -> None:
        for name in pending_request.kwargs.get("affinity", ()):
            self._homes[name] = replica_id
            self._homes.move_to_end(name)
        while len(self._homes) > MAX_NAMES:
            self._homes.popitem(last=False)
