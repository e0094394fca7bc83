from __future__ import annotations

import os

# Times are estimated by constants, so that plans do not depend on the machine, and nothing is written to the user's cache.
os.environ["BOWTIE_RATES"] = "off"

from collections.abc import Iterator
from pathlib import Path

import pytest

import datafusion_bowtie as bt

# Processes that tests start import the same packages.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(bt.__file__).parents[1]), os.environ.get("PYTHONPATH")]))


@pytest.fixture(scope="session")
def device() -> str:
    """The device of the tests that compare rows: BOWTIE_TEST_DEVICE, or the CPU backend."""
    return os.environ.get("BOWTIE_TEST_DEVICE", "host")


@pytest.fixture
def con(device: str) -> bt.Connection:
    """A connection with the default options."""
    return bt.connect(device=device)


@pytest.fixture
def forced(device: str) -> bt.Connection:
    """A connection that offloads whatever is supported."""
    return bt.connect(device=device, offload="force", cache="1GB")


@pytest.fixture(autouse=True)
def _in_directory(tmp_path: os.PathLike[str]) -> Iterator[None]:
    """Doctests and tests write their files there."""
    before = os.getcwd()
    os.chdir(tmp_path)
    yield
    os.chdir(before)
