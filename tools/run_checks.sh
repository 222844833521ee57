#!/usr/bin/env bash
# Every check and every test, in order; called by 'make test' from the top of the checkout. It makes ./.venv first, if need be.
# All of them run even if one fails, so that one run tells everything; the summary at the end has pytest's closing lines.
#
# run_checks.sh sources: only what needs no core, which make_env.sh runs while it waits for the compiler.
set -uo pipefail

PATH=$PWD/.venv/bin:$PATH
# Tests start hundreds of processes: with bytecode, and the tables of parsers beside it, each starts in half the time.
unset PYTHONDONTWRITEBYTECODE
# NumPy's threads spin for a tenth of a second as each process starts, and nothing here multiplies matrices.
export OPENBLAS_NUM_THREADS=1
stop_all() { for job in $(jobs -p); do kill -- "-$job" 2>/dev/null; done; }
trap stop_all EXIT

# beside FILE COMMAND...: start a command with a process group of its own, so that it ends with this script; its output goes to FILE.
beside() {
    set -m
    "${@:2}" >"$1" 2>&1 &
    set +m
}

# check NAME COMMAND...: run a command under a heading, and note how it went.
check() {
    local name=$1 log=$work/$1 closing
    shift
    printf '\n==== %s\n' "$name"
    if "$@" 2>&1 | tee "$log"; then result=ok; else result=FAILED; fi
    closing=$(grep -aE '^(=+ )?.*(passed|failed|error|no tests ran).* in [0-9.]+s' "$log" | tail -n 1)
    printf '%-7s %-20s %s\n' "$result" "$name" "$closing" >>"$work/summary"
}

# existing FOLDER...: those that are there (git keeps no empty ones).
existing() { for folder in "$@"; do [ -d "$folder" ] && printf '%s\n' "$folder"; done; }

manifest=middleware/native/Cargo.toml
check_rust() {
    check "cargo fmt" cargo fmt --manifest-path $manifest --check
    check "cargo clippy" cargo clippy --locked --features baselines --manifest-path $manifest --all-targets -- -D warnings
    # What one wheel for all Pythons from 3.12 on may use: checked here, whatever Python this one is.
    check "stable ABI" env PYO3_NO_PYTHON=1 PYO3_BUILD_EXTENSION_MODULE=1 \
        cargo clippy --locked --features abi3 --manifest-path $manifest -- -D warnings
    check "cargo test" cargo test --locked --manifest-path $manifest  # the logic alone, which needs no Python
}

# Beside each other, as each needs one processor.
check_sources() {
    local rust
    beside "$work/rust" check_rust
    rust=$!
    check "ruff check" ruff check .
    check "ruff format" ruff format --check .
    check "mypy" mypy
    check "import layers" env PYTHONPATH="$PWD:$PWD/middleware/public:$PWD/tests" lint-imports  # Slackline itself may not be installed yet
    wait "$rust" || echo "FAILED  Rust checks: they did not come to their end" >>"$work/summary"
    cat "$work/rust"
}

if [ "${1-}" = sources ]; then
    check_sources
    exit 0
fi
work=$(mktemp -d)
export work
trap 'stop_all; rm -rf "$work"' EXIT
if ! sh tools/make_env.sh bash tools/run_checks.sh sources; then
    cat "$work/summary" 2>/dev/null
    exit 1
fi

mapfile -t pure < <(existing tests/simulation tests/property tests/golden tests/unit)  # short ones last
mapfile -t real < <(existing tests/system tests/docs)
# Spark is started a dozen times, each for seconds: Java's second compiler costs more than it gains there. Of classes that it cannot
# share Java would tell on standard output.
export JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:SharedArchiveFile=$PWD/.venv/spark.jsa -Xlog:disable -Xlog:all=error:stderr ${JAVA_TOOL_OPTIONS:-}"
# limit SECONDS: a test that hangs ends its worker, with a traceback, not the run.
limit() { printf '%s\n' -o "faulthandler_timeout=$1" -o faulthandler_exit_on_timeout=true; }
# Real tests mostly wait, for processes and sockets; pure ones, which compute, run beside them and give way.
# Each worker has one half of the pure tests, and takes from the other's end when it is done: neighbours, which share what is dear
# to make, stay together.
beside "$work/pure" check "tests, pure" nice -n 10 pytest -n 2 --dist worksteal $(limit 900) "${pure[@]}"
computing=$!
# Whole files, in the order of tests/conftest.py: their tests share nodes and Spark sessions. A test does not know of the other
# file's processes: all have free ports and folders of their own.
check "tests, real" pytest -n 2 --dist loadfile --no-loadscope-reorder $(limit 300) "${real[@]}"
wait "$computing" || echo "FAILED  tests, pure: they did not come to their end" >>"$work/summary"
cat "$work/pure"

printf '\n==== summary\n'
cat "$work/summary" && ! grep -q ^FAILED "$work/summary"
