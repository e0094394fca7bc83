from __future__ import annotations

import os

# Times are estimated by constants, so that plans do not depend on the machine, and nothing is written to the user's cache.
os.environ["BOWTIE_RATES"] = "off"

from collections.abc import Iterator
from pathlib import Path

import pytest

import datafusion_bowtie as bt

# Processes that tests start import the same package.
os.environ["PYTHONPATH"] = str(Path(bt.__file__).parents[1])


@pytest.fixture
def con() -> bt.Connection:
    """A connection on the CPU, as a user without a GPU has it."""
    return bt.connect(device="host")


@pytest.fixture
def forced() -> bt.Connection:
    """A connection on the CPU backend, which does whatever is supported."""
    return bt.connect(device="host", offload="force", cache="1GB")


@pytest.fixture(autouse=True)
def _in_directory(tmp_path: os.PathLike[str]) -> Iterator[None]:
    """Doctests and tests write their files there."""
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)
