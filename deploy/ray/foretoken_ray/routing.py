"""Which replica gets a request: the one that has computed the longest part of its prompt, else the least loaded.

A request carries the names of its prefixes, shortest first (gateway.py: prefixes). The router remembers which replica
answered each name last. Conversations stick, because each turn begins with all turns before it. A replica whose
cache is off or was emptied (`/v1/cache`), or that has `spread` more requests than the least loaded, is passed over.
So is one that this request has asked before (`asked`), while there is another.
"""
from collections import OrderedDict
from typing import Optional

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

MAX_NAMES = 100_000


class PrefixRouter(RequestRouter):
    def initialize_state(self, spread: int = 8) -> None:
        self._spread, self._homes = spread, OrderedDict[str, ReplicaID]()

    async def choose_replicas(self, candidate_replicas: list[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> list[list[RunningReplica]]:
        """Ranks: Serve takes the next one if all replicas of a rank are full."""
        words = pending_request.kwargs if pending_request else {}
        ranks: dict[int, list[RunningReplica]] = {}
        others = [replica for replica in candidate_replicas if replica.replica_id not in words.get("asked", ())]
        for replica in others or candidate_replicas:
            ranks.setdefault(self._replica_queue_len_cache.get(replica.replica_id) or 0, []).append(replica)
        at = {replica.replica_id: (load, replica) for load, rank in ranks.items() for replica in rank}
        ordered = [ranks[load] for load in sorted(ranks)]
        for name in reversed(words.get("affinity", ())):
            if self._homes.get(name) in at:
                load, home = at[self._homes[name]]
                useful = _caches(home.routing_stats) and load <= min(ranks) + self._spread
                return [[home], *ordered] if useful else ordered
        return ordered

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: object) -> None:
        pending_request.kwargs.get("asked", []).append(replica_id)
        for name in pending_request.kwargs.get("affinity", ()):
            self._homes[name] = replica_id
            self._homes.move_to_end(name)
        while len(self._homes) > MAX_NAMES:
            self._homes.popitem(last=False)


def _caches(cache: dict[str, int]) -> bool:
    """By its last `/v1/cache`: on, and not emptied since it stored something. Nothing is known of a new replica."""
    return bool(cache.get("enabled", True) and (cache.get("snapshots", 0) or not cache.get("stored", 0)))
