#!/usr/bin/env bash
# Installs the pinned CUDA compiler without root, into a Python environment, and prints the path of nvcc. Beside it is the assembler ptxas of
# an older toolkit, whose machine code older drivers load: nvidia/cuda_nvcc/bin/ptxas.
# Only those who change kernels need it: kernels/packed serves everyone else.
#   scripts/install-cuda.sh [directory]        default: ${XDG_CACHE_HOME:-~/.cache}/datafusion-bowtie-cuda
set -euo pipefail

version=13.0.3.0
assembler=12.3.107
directory=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/datafusion-bowtie-cuda}

if [ "$(cat "$directory/version" 2>/dev/null || true)" != "$version $assembler" ]; then
    rm -rf "$directory"
    python3 -m venv "$directory"
    "$directory/bin/pip" install --quiet "cuda-toolkit[nvcc,cccl]==$version" "nvidia-cuda-nvcc-cu12==$assembler"
    echo "$version $assembler" > "$directory/version"
fi
echo "$directory"/lib/python3.*/site-packages/nvidia/cu13/bin/nvcc
