#!/usr/bin/env bash
# Builds what a release consists of into dist/, with checksums, from a clean clone: the crate, wheels, and the programs for the platforms that this
# machine can build for. It uploads nothing, but for the step publish.
#   scripts/release.sh [STEP…]      the first five steps in their order, into an empty dist/; or these, into what is there
#   scripts/release.sh --list       what they are
# CARGO_TARGET_DIR says where to build, TARGETS for which platforms (scripts/targets.sh). NATIVE=yes builds the programs for this machine with its own
# compiler: they need its glibc or a newer one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

steps=(
    "check: versions, changelog and tag agree, and nothing is uncommitted"
    "crate: the library as the Rust registry takes it, compiled once from its archive"
    "wheels: the Python package for Linux on x86-64 and arm64, or for macOS without CUDA"
    "binaries: bowtie-sql and bowtie-cluster, stripped, for the same platforms"
    "checksums: SHA256SUMS of what is in dist/"
    "notes: prints what CHANGELOG.md says about the version"
    "publish: sends the crate to the Rust registry, if all that it needs is there"
)
names=("${steps[@]%%:*}")
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
target="${CARGO_TARGET_DIR:-target}"
dist=$PWD/dist

step_check() {
    scripts/release_check.py
}

step_crate() {
    # Its files and its size; without a network, for which this fetches what it looks up.
    cargo fetch --locked
    scripts/package.sh
    cargo package --package datafusion-bowtie --locked
    cp "$target/package/datafusion-bowtie-$version.crate" "$dist/"
}

step_wheels() {
    scripts/wheels.sh "$dist"
}

step_binaries() (
    . scripts/targets.sh
    export CARGO_PROFILE_RELEASE_STRIP=symbols
    build=(--release --locked --package bowtie-sql --package datafusion-bowtie-distributed --bins)
    if [ "${NATIVE:-no}" = yes ]; then
        TARGETS=$host
    else
        scripts/setup.sh wheel-tools
        PATH="$(cd "$target/wheel-tools/bin" && pwd):$PATH"
    fi
    for triple in $(targets); do
        usable "$triple" || continue
        if ! is_linux "$triple"; then
            engines=datafusion-bowtie-distributed/datafusion-distributed,datafusion-bowtie-distributed/ballista
            cargo build "${build[@]}" --target "$triple" --no-default-features \
                --features "$engines,datafusion-bowtie-distributed/stores,datafusion-bowtie-distributed/command"
        elif [ "${NATIVE:-no}" = yes ]; then
            cargo build "${build[@]}" --target "$triple"
        else
            # Of the glibc that the wheels need.
            cargo zigbuild "${build[@]}" --target "$triple.2.17"
        fi
        for program in bowtie-sql bowtie-cluster; do
            [ "$triple" != "$host" ] || "$target/$triple/release/$program" --version
            pack "$program-$version-$triple" "$target/$triple/release/$program" LICENSE NOTICE CHANGELOG.md
        done
    done
)

# pack <name> <file…>: a folder of this name as an archive, which is the same whoever makes it, and when.
pack() {
    python3 - "$dist/$1.tar.gz" "$(git log -1 --format=%ct)" "$@" <<'PYTHON'
import gzip, os, sys, tarfile

archive, time, folder, *files = sys.argv[1:]
with open(archive, "wb") as out, gzip.GzipFile("", "wb", mtime=int(time), fileobj=out) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
    for path in files:
        entry = tarfile.TarInfo(f"{folder}/{os.path.basename(path)}")
        entry.size, entry.mtime, entry.mode = os.path.getsize(path), int(time), 0o755 if os.access(path, os.X_OK) else 0o644
        with open(path, "rb") as file:
            tar.addfile(entry, file)
PYTHON
    ls -l "$dist/$1.tar.gz"
}

step_checksums() {
    cd dist
    rm -f SHA256SUMS
    local sums="sha256sum"
    command -v sha256sum >/dev/null || sums="shasum -a 256"
    # `dist` has no folders.
    $sums -- * > SHA256SUMS
    cd ..
    cat dist/SHA256SUMS
    not_there
}

# What a whole release has, and dist/ does not.
not_there() {
    local pattern what
    while read -r pattern what; do
        compgen -G "dist/$pattern" >/dev/null || echo "not in dist/: $what"
    done <<END
datafusion-bowtie-$version.crate the crate
*manylinux*_x86_64.whl the wheel for Linux on x86-64
*manylinux*_aarch64.whl the wheel for Linux on arm64
*macosx*_arm64.whl the wheel for macOS on arm64, which is built on such a machine
*macosx*_x86_64.whl the wheel for macOS on x86-64, which is built on such a machine
bowtie-sql-$version-x86_64-unknown-linux-gnu.tar.gz the programs for Linux on x86-64
bowtie-sql-$version-aarch64-unknown-linux-gnu.tar.gz the programs for Linux on arm64
bowtie-sql-$version-aarch64-apple-darwin.tar.gz the programs for macOS on arm64, which are built on such a machine
END
}

step_notes() {
    awk -v heading="## [$version]" 'index($0, heading) == 1 { found = 1; next } /^## / { found = 0 } found' CHANGELOG.md
}

step_publish() {
    scripts/release_check.py --publish
    cargo publish --package datafusion-bowtie --locked
    echo "the wheels and the archives in dist/ are uploaded by their owners"
}

if [ "${1:-}" = --list ]; then
    printf '%s\n' "${steps[@]}"
    exit
fi
wanted=("$@")
if [ $# -eq 0 ]; then
    wanted=("${names[@]:0:5}")
    rm -rf dist
fi
for step in "${wanted[@]}"; do
    if [[ " ${names[*]} " != *" $step "* ]]; then
        echo "there is no step $step: see $0 --list" >&2
        exit 1
    fi
done
mkdir -p dist
for step in "${wanted[@]}"; do
    [ "$step" = notes ] || printf '\n==> %s\n' "$step"
    "step_$step"
done
