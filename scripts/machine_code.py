#!/usr/bin/env python3
"""Packs what a build embeds of all kernel families: a file for each architecture, kernels/machine/sm_90, and one for the PTX.

    scripts/machine_code.py DIRECTORY            packs DIRECTORY/sm_*/*.cubin and DIRECTORY/ptx/*.ptx
    scripts/machine_code.py --check DIRECTORY    fails where kernels/machine holds other code

Each folder has a file `driver` with the CUDA version that a driver must have to load the code. A packed file has that version in its first line,
then a line for each family, `name bytes`, an empty line, and the families' code, each compressed by xz. The check compares what is unpacked:
another version of xz may compress in another way.
"""

import lzma
import sys
from pathlib import Path

PACKED = Path(__file__).resolve().parent.parent / "kernels/machine"


def pack(driver, families):
    packed = {name: lzma.compress(code, check=lzma.CHECK_CRC32, preset=9 | lzma.PRESET_EXTREME) for name, code in families.items()}
    index = f"{driver}\n" + "".join(f"{name} {len(code)}\n" for name, code in packed.items())
    return index.encode() + b"\n" + b"".join(packed.values())


def unpack(data):
    index, code = data.split(b"\n\n", 1)
    driver, *lines = index.decode().splitlines()
    families = {}
    for line in lines:
        name, size = line.split()
        families[name] = lzma.decompress(code[: int(size)])
        code = code[int(size) :]
    if code:
        raise ValueError("bytes behind the last family")
    return driver, families


def made(directory):
    families = {path.stem: path.read_bytes() for path in sorted(directory.glob("*.*"))}
    return (directory / "driver").read_text().strip(), families


def main(arguments):
    check = arguments[:1] == ["--check"]
    (directory,) = arguments[check:]
    architectures = sorted(path for path in Path(directory).iterdir() if path.is_dir())
    if check:
        differ = {path.name for path in PACKED.iterdir()} ^ {path.name for path in architectures}
        for path in architectures:
            if path.name not in differ and unpack((PACKED / path.name).read_bytes()) != made(path):
                differ.add(path.name)
        for name in sorted(differ):
            print(f"kernels/machine/{name} differs", file=sys.stderr)
        return len(differ) > 0
    PACKED.mkdir(exist_ok=True)
    for path in PACKED.iterdir():
        path.unlink()
    for path in architectures:
        (PACKED / path.name).write_bytes(pack(*made(path)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
