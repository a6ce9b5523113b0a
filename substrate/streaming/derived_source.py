"""A source made of another one, block by block: targets coded, or inputs scaled."""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from substrate.arrays import Array
from substrate.streaming.source import Block, Source

__all__ = ["DerivedSource", "ScaledSource"]


@dataclass(frozen=True)
class DerivedSource(Source):
    """Everything as it is inside, but for what :meth:`changed` does to a block."""

    inner: Any

    @abstractmethod
    def changed(self, block: Block) -> Block:
        """The block as this source has it."""

    @property
    def name(self) -> str:
        """That of the rows."""
        return str(self.inner.name)

    @property
    def n_rows(self) -> int:
        """Those of the rows."""
        return int(self.inner.n_rows)

    @property
    def n_features(self) -> int:
        """Those of the rows."""
        return int(self.inner.n_features)

    @property
    def seekable(self) -> bool:
        """If the rows are."""
        return bool(self.inner.seekable)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Those of the rows."""
        names: tuple[str, ...] | None = self.inner.feature_names
        return names

    def blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Changed one by one."""
        return map(self.changed, self.inner.blocks(start, stop, step))

    def taken(self, rows: Any) -> Any:
        """As they are inside; a source that changes rows changes these too."""
        return self.inner.taken(rows)

    def sent(self, client: Any, start: int, stop: int) -> Any:
        """As the rows are, and changed there."""
        inner = self.inner.sent(client, start, stop)
        return (
            self if inner is self.inner else client.submit(replace, replace(self, inner=None), inner=inner, pure=False)
        )


@dataclass(frozen=True)
class ScaledSource(DerivedSource):
    """Inputs less a centre, over a scale, a number each a column; they are named by whoever scales them."""

    center: Array
    scale: Array

    @property
    def feature_names(self) -> None:
        """None: these are not the columns that have the names."""
        return

    def changed(self, block: Block) -> Block:
        """Scaled."""
        return Block((block.X - self.center) / self.scale, block.Y, block.start)

    def taken(self, rows: Any) -> Any:
        """Scaled."""
        return (self.inner.taken(rows) - self.center) / self.scale
