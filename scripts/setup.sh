#!/usr/bin/env bash
# Installs what builds and checks of this repository need and this machine lacks. What is there already stays as it is.
#   scripts/setup.sh [--check] [THING…]     what .ci/run needs (the first five things), or these; --check installs nothing, and fails if something is
#                                           missing
#   scripts/setup.sh --list                 what they are
# Packages of the system are installed by apt-get where there is one, as root or by sudo; elsewhere the script says which ones are missing.
# Environments of Python are in Cargo's target directory, that of the book and the CUDA compiler in ${XDG_CACHE_HOME:-~/.cache}. Calls at the same time
# take turns where there is flock.
# PYTHON, CC and CXX choose other programs than python3, cc and g++.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

things=(
    "rust: the toolchain of rust-toolchain.toml, or the one that RUSTUP_TOOLCHAIN names, with rustfmt and clippy"
    "compiler: a C compiler for Rust and its dependencies, and one of C++20 for the emulated GPU"
    "python: Python 3.11 or newer with venv, for the scripts"
    "libclang: for the crate of NVTX ranges (the shell's feature nvtx)"
    "browser: Chromium and pdftoppm, for the tests of a profile's page"
    "cuda: the CUDA compiler that the kernels are checked with"
    "python-tests: an environment of Python for scripts/python_tests.sh"
    "page-tests: the same for scripts/page_tests.sh"
    "recipes: the same for scripts/recipes.sh"
    "docs: the same for scripts/docs.sh"
    "wheel-tools: the same for scripts/wheels.sh and the programs of scripts/release.sh"
)
names=("${things[@]%%:*}")
python="${PYTHON:-python3}"
target="${CARGO_TARGET_DIR:-target}"
cache="${XDG_CACHE_HOME:-$HOME/.cache}"

# What the machine lacks, by functions that succeed if a thing is there and else print what is missing; then functions that install it.

has_rust() {
    cargo --version >/dev/null 2>&1 || { echo "cargo does not run here"; return 1; }
    cargo fmt --version >/dev/null 2>&1 || { echo "rustfmt"; return 1; }
    cargo clippy --version >/dev/null 2>&1 || { echo "clippy"; return 1; }
}

install_rust() {
    if ! command -v rustup >/dev/null; then
        echo "install Rust by rustup (https://rustup.rs), or rustfmt and clippy as your system has them" >&2
        return 1
    fi
    if ! cargo --version >/dev/null 2>&1 && ! rustup toolchain install; then
        echo "the toolchain of rust-toolchain.toml cannot be installed: try RUSTUP_TOOLCHAIN=stable" >&2
        return 1
    fi
    cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
    cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
}

has_compiler() {
    local program='int main() { return 0; }'
    "${CC:-cc}" -x c -fsyntax-only - <<< "$program" 2>/dev/null || { echo "a C compiler (${CC:-cc})"; return 1; }
    "${CXX:-g++}" -std=c++20 -x c++ -fsyntax-only - <<< "$program" 2>/dev/null || { echo "a compiler of C++20 (${CXX:-g++})"; return 1; }
}

install_compiler() {
    packages build-essential
}

has_python() {
    "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        { echo "Python 3.11 or newer with venv ($python)"; return 1; }
}

install_python() {
    packages python3 python3-venv
}

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] || compgen -G '/usr/lib/llvm-*/lib/libclang.so' >/dev/null ||
        { echo "libclang.so (or LIBCLANG_PATH, the folder that has it)"; return 1; }
}

install_libclang() {
    packages libclang-dev
}

has_browser() {
    command -v chromium >/dev/null || { echo "chromium"; return 1; }
    command -v pdftoppm >/dev/null || { echo "pdftoppm"; return 1; }
}

install_browser() {
    command -v chromium >/dev/null || packages chromium
    command -v pdftoppm >/dev/null || packages poppler-utils
}

has_cuda() {
    scripts/install-cuda.sh --check >/dev/null || { echo "nvcc of the pinned version"; return 1; }
}

install_cuda() {
    scripts/install-cuda.sh
}

# environment <name>: sets `folder`, that of an environment of Python, and `requirements`, the file that says what is in it.
environment() {
    folder="$target/$1"
    case "$1" in
        python-tests) requirements=python/tests/requirements.txt ;;
        page-tests) requirements=tests/page/requirements.txt ;;
        recipes) requirements=scripts/recipes-requirements.txt ;;
        docs) folder="$cache/datafusion-bowtie-docs" requirements=docs/requirements.txt ;;
        wheel-tools) requirements=scripts/wheels-requirements.txt ;;
    esac
}

# What an environment is made of: an interpreter of a version, and packages.
ingredients() {
    "$python" -V && cat "$requirements"
}

# The environment's file `made-of` says what was installed.
has_environment() {
    local folder requirements
    environment "$1"
    if [ ! -x "$folder/bin/python" ] || ! ingredients | cmp -s - "$folder/made-of"; then
        echo "the packages of $requirements"
        return 1
    fi
}

# The requirements have each package: one that they lack has no fixed version, and is an error.
install_environment() {
    local folder requirements
    environment "$1"
    "$python" -m venv --clear "$folder"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --requirement "$requirements"
    "$folder/bin/python" -m pip check --quiet --disable-pip-version-check
    ingredients > "$folder/made-of"
}

# packages <name…>: those of Debian and of its descendants.
packages() {
    if ! command -v apt-get >/dev/null; then
        echo "install it as your system does; Debian's packages are $*" >&2
        return 1
    fi
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    ${as_root[@]+"${as_root[@]}"} apt-get update -qq
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o DPkg::Lock::Timeout=300 "$@" >/dev/null
}

# in_turn <kind> <thing>: installs it, if another call has not done so in the meantime.
in_turn() (
    mkdir -p "$cache"
    exec 9> "$cache/datafusion-bowtie-setup.lock"
    if command -v flock >/dev/null && ! flock --nonblock 9; then
        echo "$2: waits until another setup has ended"
        flock 9
    fi
    if ! "has_$1" "$2" >/dev/null; then
        # Nothing that this starts keeps the lock.
        "install_$1" "$2" 9>&-
    fi
)

check=no
wanted=()
for argument in "$@"; do
    case "$argument" in
        --check) check=yes ;;
        --list)
            printf '%s\n' "${things[@]}"
            exit
            ;;
        *)
            if [[ " ${names[*]} " != *" $argument "* ]]; then
                echo "there is no thing $argument: see $0 --list" >&2
                exit 1
            fi
            wanted+=("$argument")
            ;;
    esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=("${names[@]:0:5}")
# rustup installs a toolchain when it is first called.
[ "$check" = no ] || export RUSTUP_AUTO_INSTALL=0

missing=0
for thing in "${wanted[@]}"; do
    case "$thing" in
        rust | compiler | python | libclang | browser | cuda) kind=$thing ;;
        *) kind=environment ;;
    esac
    if lacks=$("has_$kind" "$thing"); then
        [ "$check" = no ] || echo "$thing: there"
    elif [ "$check" = yes ]; then
        echo "$thing: missing: $lacks"
        missing=$((missing + 1))
    else
        echo "$thing: installing, as this is missing: $lacks"
        in_turn "$kind" "$thing"
        if ! lacks=$("has_$kind" "$thing"); then
            echo "$thing: still missing: $lacks" >&2
            exit 1
        fi
    fi
done
[ "$missing" -eq 0 ]
