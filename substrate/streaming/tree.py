r"""One order of summation for all: an aligned binary tree over leaves of a fixed number of rows.

.. math:: S_{k, j} = S_{k-1, 2j} + S_{k-1, 2j+1}, \qquad S_{0, j} = \text{the sum over leaf } j,

where a right child that does not exist adds nothing. Floating-point sums depend on their order; here the order is a
property of the rows, so whoever computes any aligned part, one process or many, gets the same bits. It is also
pairwise summation, whose rounding grows with the logarithm of the number of leaves ([Higham2002]_ section 4.2).

Partial sums are held like the digits of a binary counter: for m leaves, at most :math:`\log_2 m + 1` of them.
"""

from typing import Any

__all__ = ["SummationTree", "height"]


def height(leaves: int) -> int:
    """The lowest k with 2^k leaves or more."""
    return max(leaves - 1, 0).bit_length()


class SummationTree:
    """Nodes from left to right, each with its height, added as soon as a pair is complete."""

    def __init__(self, nodes: list[tuple[int, Any]] | None = None) -> None:
        self.nodes: list[tuple[int, Any]] = [] if nodes is None else list(nodes)

    def push(self, level: int, value: Any) -> None:
        """Append the next node to the right; only the last of all may stand for fewer leaves than its height says."""
        if self.nodes and self.nodes[-1][0] < level:
            raise ValueError(f"a node of height {level} cannot follow one of height {self.nodes[-1][0]}")
        while self.nodes and self.nodes[-1][0] == level:
            value = self.nodes.pop()[1] + value
            level += 1
        self.nodes.append((level, value))

    def total(self) -> Any:
        """The root: what is left over is added from the right."""
        if not self.nodes:
            raise ValueError("a tree without leaves has no sum")
        value = self.nodes[-1][1]
        for _, left in reversed(self.nodes[:-1]):
            value = left + value
        return value
