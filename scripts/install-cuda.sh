#!/usr/bin/env bash
# Installs the pinned CUDA compiler without root, into a Python environment, and prints the path of nvcc.
# Only those who change kernels need it: the PTX in kernels/ptx serves everyone else.
#   scripts/install-cuda.sh [directory]        default: ${XDG_CACHE_HOME:-~/.cache}/datafusion-bowtie-cuda
set -euo pipefail

version=13.0.3.0
directory=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/datafusion-bowtie-cuda}

if [ "$(cat "$directory/version" 2>/dev/null || true)" != "$version" ]; then
    rm -rf "$directory"
    python3 -m venv "$directory"
    "$directory/bin/pip" install --quiet "cuda-toolkit[nvcc,cccl]==$version"
    echo "$version" > "$directory/version"
fi
echo "$directory"/lib/python3.*/site-packages/nvidia/cu13/bin/nvcc
