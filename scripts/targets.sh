# Which platforms wheels and programs are built for. Sourced by wheels.sh and release.sh at the root of the repository.
# In: TARGETS, the triples that must be built. Without it Linux builds for x86-64 and arm64, as far as Rust's library for them can be installed, and
# macOS for itself.
# Out: `targets` prints the triples; `usable <triple>` makes one usable, or says why it is skipped, which is an error if TARGETS names it;
# `is_linux <triple>`; `host`.

host=$(rustc -vV | sed -n 's/^host: //p')

is_linux() {
    [[ "$1" == *-linux-gnu ]]
}

targets() {
    if [ -n "${TARGETS:-}" ]; then
        echo "$TARGETS"
    elif is_linux "$host"; then
        echo x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
    else
        echo "$host"
    fi
}

usable() {
    local why
    if ! is_linux "$1" && [ "$1" != "$host" ]; then
        why="it is built on such a machine alone"
    elif [ -d "$(rustc --print target-libdir --target "$1" 2>/dev/null)" ] || rustup target add "$1"; then
        return 0
    else
        why="Rust's library for it is not installed, and cannot be"
    fi
    echo "skipped $1: $why"
    # Whoever names a target needs it.
    [ -z "${TARGETS:-}" ] || exit 1
    return 1
}
