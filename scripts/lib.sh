# What scripts/test, scripts/perf and .ci/run share. Source it from the repository's root, under `set -euo pipefail`.
# Messages go to standard error: standard output belongs to the programs.

say() {
    printf '%s\n' "$*" >&2
}

die() {
    say "$0: $*"
    exit 1
}

# package_missing PACKAGE: whether what we use of a Debian package is absent, however it would have come here.
package_missing() {
    case $1 in
    gcc) ! command -v cc >/dev/null && ! command -v gcc >/dev/null ;;
    cmake | clang-format | g++ | git | pkg-config | python3) ! command -v "$1" >/dev/null ;;
    ninja-build) ! command -v ninja >/dev/null ;;
    xz-utils) ! command -v xz >/dev/null ;;
    libc6-dev) ! has_header stdio.h ;;
    libcriterion-dev) ! has_header criterion/criterion.h ;;
    libjemalloc-dev) ! has_header jemalloc/jemalloc.h ;;
    *) die "package_missing does not know $1" ;;
    esac
}

has_header() {
    echo "#include <$1>" | "${CC:-cc}" -E -x c - >/dev/null 2>&1
}

# need PACKAGE...: installs those that are missing; where it may not, says which and ends the script.
need() {
    local package missing=() as_root=()
    for package in "$@"; do
        if package_missing "$package"; then missing+=("$package"); fi
    done
    if [ ${#missing[@]} -eq 0 ]; then return 0; fi
    if [ "$(id -u)" -ne 0 ]; then as_root=(sudo -n); fi
    if ! command -v apt-get >/dev/null; then
        die "please install what these Debian packages hold, then run this again: ${missing[*]}"
    fi
    if [ ${#as_root[@]} -gt 0 ] && ! sudo -n true 2>/dev/null; then
        die "please run this, then try again:  sudo apt-get install ${missing[*]}"
    fi
    say "Installing ${missing[*]}"
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q update
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends "${missing[@]}"
}

# quietly COMMAND...: its output is shown only if it fails, and then ends the script.
quietly() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Creating|Compiling|Re-checking) ' "$log" >&2 || true
        rm -f "$log"
        die "failed: $*"
    fi
    rm -f "$log"
}

# Compute capabilities of this machine's GPUs as CMake list items ("90"), or nothing.
gpu_capabilities() {
    { nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null || true; } |
        sed -n 's/^ *\([0-9][0-9]*\)\.\([0-9]\) *$/\1\2/p' | sort -nu | paste -sd';' -
}

# configure DIRECTORY OPTION...: an option that did not change costs nothing.
configure() {
    local directory=$1
    shift
    quietly cmake -S . -B "$directory" -G Ninja "$@"
}

# build DIRECTORY [TARGET]
build() {
    quietly cmake --build "$1" -j "$(nproc)" ${2:+--target "$2"}
}

# build_program NAME PACKAGE...: builds one program in BUILD_DIR (build/), with the GPUs' kernels where there are GPUs, and sets
# `program` to its path. The packages are what it needs besides the usual ones.
build_program() {
    local name=$1 dir=${BUILD_DIR:-build} options=() capabilities
    shift
    need cmake ninja-build gcc libc6-dev pkg-config "$@"
    capabilities=${RONDO_CUDA_ARCHITECTURES:-$(gpu_capabilities)}
    if [ -n "$capabilities" ]; then
        options+=(-DRONDO_CUDA=AUTO "-DRONDO_CUDA_ARCHITECTURES=$capabilities")
    fi
    if [ ! -f "$dir/CMakeCache.txt" ]; then # else it stays as whoever made it wanted it
        options+=(-DRONDO_BUILD_TESTS=OFF)
        if [ -z "$capabilities" ]; then options+=(-DRONDO_CUDA=OFF); fi
        say "Building Rondo in $dir/ ${capabilities:+(with GPU kernels this takes some minutes)}"
    fi
    configure "$dir" "${options[@]}"
    if [ -n "$capabilities" ] && grep -q '^RONDO_NVCC:.*-NOTFOUND' "$dir/CMakeCache.txt"; then
        say "There is a GPU, but no nvcc (CUDA toolkit, 12.8 or later): only the host device is built."
    fi
    build "$dir" "$name"
    program=$(cd "$dir" && pwd)/$name
}
