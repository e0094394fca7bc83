#!/usr/bin/env python3
"""Packs what a build embeds of the kernels: a file for each family, kernels/packed/FAMILY, so that a change of one kernel rewrites one small file.

    scripts/kernel_packs.py DIRECTORY            packs DIRECTORY/sm_*/*.cubin and DIRECTORY/ptx/*.ptx
    scripts/kernel_packs.py --check DIRECTORY    fails where kernels/packed holds other code
    scripts/kernel_packs.py --show FAMILY        prints the PTX of a family in kernels/packed

Each folder of DIRECTORY has a file `driver` with the CUDA version that a driver must have to load its code. A pack is a text, a text and code; an
empty line ends each text:

    sm_90 12.3 20480                                   the index: name, that version and bytes of each code
    ptx 12.3 8192
                                                       (empty)
    .entry rows_gather32(.param .u64 p0, …)            the declarations of the family's kernels, of the PTX
                                                       (empty)
    the code in the index's order, each compressed by xz

The check compares what is unpacked: another version of xz may compress in another way.
"""

import lzma
import re
import sys
from pathlib import Path

PACKED = Path(__file__).resolve().parent.parent / "kernels/packed"
# Machine code has instructions of 16 bytes: four bits of the position say more than the byte before.
OF_MACHINE_CODE = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 4, "pb": 4}
OF_TEXT = {"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}


def compress(name, code):
    chosen = OF_TEXT if name == "ptx" else OF_MACHINE_CODE
    return lzma.compress(code, format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC32, filters=[chosen])


def declarations(ptx):
    """One line for each kernel of a PTX text. Its parameters have short names: a build needs their widths."""
    found = re.findall(r"\.entry\s+(\w+)\s*\(([^)]*)\)", ptx)
    short = [(name, " ".join(parameters.replace(f"{name}_param_", "p").split())) for name, parameters in found]
    return "\n".join(f".entry {name}({parameters})" for name, parameters in short)


def pack(codes):
    """`codes`: the name of each code, its driver's version and its bytes."""
    ptx = next(code for name, _, code in codes if name == "ptx").decode()
    packed = [(name, driver, compress(name, code)) for name, driver, code in codes]
    index = "\n".join(f"{name} {driver} {len(code)}" for name, driver, code in packed)
    return f"{index}\n\n{declarations(ptx)}\n\n".encode() + b"".join(code for _, _, code in packed)


def unpack(data):
    """The codes, and the declarations."""
    index, text, rest = data.split(b"\n\n", 2)
    codes = []
    for line in index.decode().splitlines():
        name, driver, size = line.split()
        codes.append((name, driver, lzma.decompress(rest[: int(size)])))
        rest = rest[int(size) :]
    if rest:
        raise ValueError("bytes behind the last code")
    return codes, text.decode()


def made(directory):
    """The codes of each family that was made, the PTX last."""
    families = {}
    folders = sorted(path for path in directory.iterdir() if path.is_dir())
    for folder in sorted(folders, key=lambda folder: folder.name == "ptx"):
        driver = (folder / "driver").read_text().strip()
        for path in sorted(folder.glob("*.*")):
            families.setdefault(path.stem, []).append((folder.name, driver, path.read_bytes()))
    return families


def is_kept(name, codes):
    try:
        kept, text = unpack((PACKED / name).read_bytes())
    except (ValueError, lzma.LZMAError):
        # It is damaged, and is written anew.
        return False
    return kept == codes and text == declarations(dict((name, code) for name, _, code in codes)["ptx"].decode())


def main(arguments):
    match arguments:
        case ["--show", family]:
            codes, _ = unpack((PACKED / family).read_bytes())
            sys.stdout.write(codes[-1][2].decode())
        case ["--check", directory]:
            families = made(Path(directory))
            differ = {path.name for path in PACKED.iterdir()} ^ families.keys()
            differ |= {name for name in families.keys() - differ if not is_kept(name, families[name])}
            for name in sorted(differ):
                print(f"kernels/packed/{name} differs", file=sys.stderr)
            return len(differ) > 0
        case [directory]:
            families = made(Path(directory))
            PACKED.mkdir(exist_ok=True)
            for path in PACKED.iterdir():
                if path.name not in families:
                    path.unlink()
            for name, codes in families.items():
                # Packs whose code is the same stay as they are.
                if not (PACKED / name).exists() or not is_kept(name, codes):
                    (PACKED / name).write_bytes(pack(codes))
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
