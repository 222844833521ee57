#!/bin/sh
# Creates or updates ./.venv with everything Slackline needs; called by 'make env' from the top of the checkout.
#
# With a command, it runs that, too, as soon as all packages are there: the core may still be compiled then.
#
# .venv/.complete holds a checksum of all that the environment depends on: if it is the same, there is nothing to do.
# .venv/.building stands while an installation is on its way: if it is found, the last one was cut off, and we start anew.
set -eu

VENV=.venv
STAMP=$VENV/.complete
BUILDING=$VENV/.building
PYTHONS="python3 python3.11 python3.12 python3.13 python3.14 python"

say() { printf '== %s\n' "$*"; }
fail() { printf 'make env: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

fingerprint() {
    { pwd; cat pyproject.toml requirements.lock setup.py Makefile tools/make_env.sh tools/share_classes.sh tools/train_spark.py
      find middleware/native tests/slackline_benchmarks/baselines -name target -prune -o -type f \( -name '*.rs' -o -name 'Cargo.*' \) -exec cat {} +
    } | cksum
}

# May we install system packages?
can_install() { [ "$(id -u)" = 0 ] && have apt-get; }

# The lists of packages are fetched once a run.
UPDATED=no
apt_update() {
    if [ $UPDATED = no ]; then apt-get update -qq </dev/null || true; UPDATED=yes; fi
}

# apt_install PACKAGE...: fails if apt fails.
apt_install() {
    say "installing $* (apt-get)"
    apt_update
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

# Prints the first Python >= 3.11 that can make virtual environments.
find_python() {
    for candidate in $PYTHONS; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

ensure_python() {
    PYTHON=$(find_python) && return
    can_install || fail "no Python >= 3.11 with venv found. Install one (Debian, as root: apt-get install python3 python3-venv), then run make env again."
    apt_install python3 python3-venv || fail "apt-get could not install python3 and python3-venv: is a package mirror reachable? See what it says above."
    PYTHON=$(find_python) || fail "Python >= 3.11 is needed, but this system's own is $(python3 -V 2>&1). Install a newer one by hand, then run make env again."
}

# The first version of Rust that can build the core.
RUST=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' middleware/native/Cargo.toml)

# is_enough VERSION: whether a version of Rust can build the core.
is_enough() { [ -n "$1" ] && [ "$(printf '%s\n' "$RUST" "$1" | sort -V | head -n 1)" = "$RUST" ]; }

has_rust() { have cargo && is_enough "$(cargo --version 2>/dev/null | cut -d ' ' -f 2)"; }

# candidate PACKAGE: the version of a package that apt-get would install.
candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'; }

# The core is written in Rust. Where Debian's own is too old, it may have a newer one for browsers (cargo-web), or rustup.
ensure_rust() {
    if [ -x "$HOME/.cargo/bin/cargo" ]; then PATH=$HOME/.cargo/bin:$PATH; fi
    if ! has_rust && can_install; then
        apt_update
        if is_enough "$(candidate cargo)"; then apt_install cargo
        elif is_enough "$(candidate cargo-web)"; then apt_install cargo-web
        elif have rustup || apt_install rustup; then rustup default stable >&2 && PATH=$HOME/.cargo/bin:$PATH
        fi || true
    fi
    has_rust || fail "Rust $RUST or later (cargo) is needed to build the core. Install it (https://rustup.rs; Debian, as root: apt-get install cargo-web, or cargo where it is new enough), then run make env again."
    if ! have cc && can_install; then apt_install gcc libc6-dev || true; fi
    have cc || fail "a linker (cc) is needed to build the core. Install one (Debian, as root: apt-get install gcc libc6-dev), then run make env again."
}

# The major version of the Java that Spark will find, or 0.
java_version() {
    if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; else java=java; fi
    major=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1) || true
    echo "${major:-0}"
}

# Java is for Spark only, so the environment is made even where Java cannot be had; the message then says what is missing.
ensure_java() {
    if [ "$(java_version)" -ge 17 ]; then return; fi
    if can_install && [ -z "${JAVA_HOME:-}" ]; then
        apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless || true
        if [ "$(java_version)" -ge 17 ]; then return; fi
    fi
    say "MISSING: Java 17 (for Spark: make demo and the Spark tests need it). On Debian, as root: apt-get install openjdk-17-jre-headless${JAVA_HOME:+, and mend JAVA_HOME=$JAVA_HOME}"
}

# The servers that tests of connectors run against; without them those tests are skipped, and say so.
ensure_servers() {
    missing=
    [ -x /usr/sbin/mosquitto ] || have mosquitto || missing="$missing mosquitto"
    have postgres || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
    have mvn || missing="$missing maven"
    if [ -n "$missing" ] && can_install; then apt_install $missing && missing= || true; fi
    if [ -n "$missing" ]; then say "MISSING, for the tests of connectors:$missing. On Debian, as root: apt-get install$missing"; fi
}

works() { "$VENV/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# Installs, of requirements.lock, what the installation itself needs.
install_tools() {
    sed -n '/^\(uv\|setuptools\|setuptools-rust\|semantic-version\)==/,/[^\\]$/p' requirements.lock >$VENV/tools.lock
    $VENV/bin/python -m pip install --quiet --requirement $VENV/tools.lock </dev/null
}

# Installs exactly the versions of requirements.lock, each known by its checksum: with uv, in a fifth of the time that pip takes. uv
# does not know pip's configuration, so what it cannot reach is left to pip.
install_locked() {
    $VENV/bin/uv pip install --quiet --python $VENV/bin/python --require-hashes $BYTECODE --requirement requirements.lock </dev/null && return
    say "uv could not install the packages: trying pip"
    $VENV/bin/python -m pip install --quiet --requirement requirements.lock </dev/null
}

# The installers gave up in order: what was there before still is.
give_up() {
    rm -f $BUILDING
    fail "the packages could not be installed (see above). If no package registry was reached: check the network and '$VENV/bin/pip config list'."
}

# Runs a command in a group of its own, where the system can, so that it ends with all that it has started: see end_all.
on_its_own() {
    if have setsid; then exec setsid "$@"; fi
    exec "$@"
}

end_all() { for job in ${building-} ${sharing-}; do kill -- "-$job" 2>/dev/null || kill "$job" 2>/dev/null || true; done; }

# Java without Spark's classes at hand starts Spark all the same, later.
share_classes() {
    [ "$(java_version)" -ge 17 ] || return 0
    on_its_own sh tools/share_classes.sh $VENV
}

# Waits for Slackline itself, and says what went wrong with it.
built() { wait $building || { cat $VENV/slackline.log >&2; return 1; }; }

install() {
    ensure_rust
    if [ -e $BUILDING ] || { [ -e $VENV ] && ! works; }; then
        say "$VENV is broken or was left half made: starting anew"
        rm -rf $VENV
    fi
    if [ ! -e $VENV ]; then
        ensure_python
        say "creating $VENV with $("$PYTHON" -V) ($PYTHON)"
        { mkdir $VENV && touch $BUILDING && "$PYTHON" -m venv $VENV; } ||
            fail "could not create $VENV (is the disk full, or the folder not yours?)"
    fi
    touch $BUILDING
    rm -f $STAMP
    say "installing Slackline and what it needs into $VENV"
    install_tools || give_up
    # The core takes the compiler two minutes on one processor: all else is fetched meanwhile.
    on_its_own $VENV/bin/python -m pip install --quiet --no-deps --use-pep517 --no-build-isolation --editable . </dev/null >$VENV/slackline.log 2>&1 &
    building=$!
    trap end_all EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    ensure_servers
    install_locked || give_up
    share_classes &
    sharing=$!
    "$@"
    wait $sharing || say "Spark starts slower than it could: its classes could not be kept, see $VENV/spark.log"
    built || { rm -f $BUILDING; fail "Slackline could not be built: see above."; }
    trap - EXIT INT TERM
    fingerprint >$STAMP
    rm -f $BUILDING
}

# Of all packages: a minute of one processor, so that the first command is not slow. A command that is run at once has Python write
# what it needs, a third of that.
BYTECODE=--compile-bytecode
if [ $# -gt 0 ]; then BYTECODE=; else set -- true; fi
ensure_java
if [ ! -e $BUILDING ] && [ -e $STAMP ] && [ "$(fingerprint)" = "$(cat $STAMP)" ] && works; then
    ensure_servers
    "$@"
    exit 0
fi
install "$@"
say "environment ready"
$VENV/bin/slackline doctor || say "something required is missing: see the lines marked 'missing' above"
