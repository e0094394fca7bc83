"""SQL on Arrow data: Apache DataFusion with bowtie's joins and aggregations, on CPUs and NVIDIA GPUs.

>>> import datafusion_bowtie as bt
>>> con = bt.connect()
>>> con.sql("SELECT count(*) AS pairs FROM range(1, 1001) r JOIN range(1, 901) s ON r.value > s.value").fetchall()
[(494550,)]
"""

from __future__ import annotations

import atexit

from datafusion_bowtie import _lib
from datafusion_bowtie.connection import Connection, connect, devices
from datafusion_bowtie.dataframe import BatchIterator, DataFrame
from datafusion_bowtie.errors import (
    ConfigurationError,
    Error,
    ExecutionError,
    FileError,
    NotSupportedError,
    PlanError,
    ResourcesError,
)
from datafusion_bowtie.explanation import PlanExplanation
from datafusion_bowtie.interval import Interval
from datafusion_bowtie.profile import Profile

__version__: str = _lib.version
#: The version of DataFusion within.
datafusion_version: str = _lib.datafusion_version

__all__ = [
    "BatchIterator",
    "ConfigurationError",
    "Connection",
    "DataFrame",
    "Error",
    "ExecutionError",
    "FileError",
    "Interval",
    "NotSupportedError",
    "PlanError",
    "PlanExplanation",
    "Profile",
    "ResourcesError",
    "__version__",
    "connect",
    "datafusion_version",
    "devices",
]

atexit.register(_lib.shutdown)
