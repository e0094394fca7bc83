"""What a plan is, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from datafusion_bowtie._optional import pyarrow
from datafusion_bowtie.rendering import preformatted

if TYPE_CHECKING:
    import pyarrow as pa

    from datafusion_bowtie._arrow import ArrowSource

__all__ = ["PlanExplanation"]


class PlanExplanation:
    """A plan whose every node says where it runs and why. It prints as text.

    >>> import datafusion_bowtie as bt
    >>> con = bt.connect(device="host")
    >>> plan = con.sql("SELECT count(*) FROM range(1, 1000) r JOIN range(1, 900) s ON r.value > s.value").explain()
    >>> "Bowtie" in str(plan)
    True
    """

    __slots__ = ("_nodes", "_text")

    def __init__(self, text: str, nodes: ArrowSource) -> None:
        self._text = text
        self._nodes = nodes

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return preformatted(self._text)

    def to_arrow(self) -> pa.Table:
        """The same as rows, one for each node.

        >>> import datafusion_bowtie as bt
        >>> plan = bt.connect(device="host").sql("SELECT * FROM range(0, 3)").explain()
        >>> plan.to_arrow().column("node").to_pylist()[-1]
        'LazyMemoryExec'
        """
        return pyarrow("to_arrow").table(self._nodes)
