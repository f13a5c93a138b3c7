"""A set of blocks with O(1) add, discard and uniform choice."""

from __future__ import annotations

from worker_svc.kv.base import require


class LeafSet:
    """Items in a list; `discard` moves the last item into the hole."""

    __slots__ = ("items", "position")

    def __init__(self) -> None:
        self.items: list[int] = []
        self.position: dict[int, int] = {}

    def add(self, block: int) -> None:
        """`block` must not be in the set."""
        self.position[block] = len(self.items)
        self.items.append(block)

    def discard(self, block: int) -> bool:
        """True if it was there."""
        hole = self.position.pop(block, None)
        if hole is None:
            return False
        last = self.items.pop()
        if last != block:
            self.items[hole] = last
            self.position[last] = hole
        return True

    def take(self, index: int) -> int:
        """Takes out the item at `index` of `items`."""
        items = self.items
        block, last = items[index], items.pop()
        if last != block:
            items[index] = last
            self.position[last] = index
        del self.position[block]
        return block

    def __len__(self) -> int:
        return len(self.items)

    def __contains__(self, block: int) -> bool:
        return block in self.position

    def check(self) -> None:
        require(len(self.items) == len(self.position), "leaf set: a block is listed twice")
        for index, block in enumerate(self.items):
            require(self.position.get(block) == index, f"leaf set: block {block} is misplaced")
