"""Objects put into the store by servers before their entries are staged: multipart uploads."""

from dataclasses import dataclass, field


@dataclass
class Serving:
    put: dict[str, float] = field(default_factory=dict)  # when a server put an object there
    promised: dict[str, float] = field(default_factory=dict)  # when it acknowledged that it is staged
    # seconds that runs give such an object, which are the grace; a server that takes longer breaks the promise by
    # itself
    given: float = 0.0

    def is_late(self, address: str, now: float) -> bool:
        """Whether a server took longer than allowed."""
        return now - self.put.get(address, now) > self.given

    def since(self, address: str, readable: float) -> float:
        """The time from which an address counts: when its server had to stage it, if it did so in time."""
        put = self.put.get(address, readable)
        by_others = readable > self.promised.get(address, float("inf"))
        return readable if by_others or readable - put > self.given else min(put, readable)
