#!/usr/bin/env bash
# Packs the crate as the Rust registry takes it, and fails when a file is missing that a build needs, or when the archive is too large. Builds
# nothing: that would compile DataFusion once more, with the features of the library alone.
#   scripts/package.sh                  in the target directory: package/datafusion-bowtie-<version>.crate
# Offline: call it after a build, which has fetched what it looks up.
set -euo pipefail
cd "$(dirname "$0")/.."

# What the registry takes at most, compressed.
most=$((10 << 20))
target=${CARGO_TARGET_DIR:-target}
rm -f "$target"/package/datafusion-bowtie-*.crate
cargo package --package datafusion-bowtie --locked --offline --allow-dirty --no-verify
crate=$(ls "$target"/package/datafusion-bowtie-*.crate)

packed=$(mktemp)
trap 'rm -f "$packed"' EXIT
tar tzf "$crate" | sed 's#^[^/]*/##' | LC_ALL=C sort > "$packed"
missing=$(git ls-files Cargo.toml build.rs src kernels README.md LICENSE NOTICE | LC_ALL=C sort | LC_ALL=C comm -23 - "$packed")
if [ -n "$missing" ]; then
    printf 'not in the package:\n%s\n' "$missing" >&2
    exit 1
fi
size=$(stat -c %s "$crate")
printf '%s: %d files, %d KiB of at most %d KiB\n' "$crate" "$(wc -l < "$packed")" $((size >> 10)) $((most >> 10))
test "$size" -le "$most"
