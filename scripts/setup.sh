#!/usr/bin/env bash
# Installs what a build needs: Debian packages, and the pinned third-party sources under $CRIA_DEPS_DIR
# (default ~/.cache/cria/deps). Safe to repeat; a second run does nothing and takes a fraction of a second.
#   scripts/setup.sh [--test] [--tidy] [--fuzz] [--aarch64] [--armv7] [--cortex-m] [--package] [--web]
# Without an option it brings what the programs need; with any, what tests need too. Each option adds what one more thing
# needs: scripts/tidy.sh, scripts/fuzz.sh and scripts/coverage.sh, a cross target of scripts/test.sh, scripts/package.sh, a
# browser for the tests of the server's page.
set -euo pipefail
export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
deps=$(realpath -m "${CRIA_DEPS_DIR:-${HOME:?is not set; name a folder in CRIA_DEPS_DIR}/.cache/cria/deps}")
attempts=3

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -E "$@"; fi
}

# retry COMMAND...: three attempts; when all fail, $reason is the line that says why.
retry() {
  local log attempt
  log=$(mktemp)
  for attempt in $(seq "$attempts"); do
    if "$@" >"$log" 2>&1 </dev/null; then rm -f "$log"; return 0; fi
    [ "$attempt" -eq "$attempts" ] || sleep $((attempt * 2))
  done
  reason=$(grep -m1 '^E: ' "$log" || tail -n 1 "$log")
  rm -f "$log"
  return 1
}

# --- Debian packages -------------------------------------------------------------------------------------------

# xz-utils, dpkg-dev: to fetch and unpack sources. ccache: a second build compiles what differs. libedit-dev: edits the lines of
# a chat. python3-jinja2: with it cria-convert renders chat templates.
packages=(g++ cmake ninja-build ccache python3 python3-jinja2 xz-utils dpkg-dev nlohmann-json3-dev libcli11-dev libedit-dev)
# googletest: its source, for cross builds. qemu-user: CPUs that are not at hand. libzstd1: for the second reader of the model
# file, in Python. python3-jsonschema: judges the documents of JSON schemas. python3-pytest: tests of the Python module. mold
# links tests.
test_packages=(mold python3-jsonschema python3-pytest libzstd1 googletest libgtest-dev libbenchmark-dev qemu-user clang-format-14)
[ $# -eq 0 ] || packages+=("${test_packages[@]}")
# Headers of Boost from 1.74 on, for the server's HTTP. Where there are none: Debian 12 has 1.81 beside its usual 1.74.
grep -qsE 'define BOOST_VERSION 10(7[4-9]|[89][0-9])' /usr/include/boost/version.hpp ||
  packages+=("$(. /etc/os-release && [ "${VERSION_CODENAME:-}" = bookworm ] && echo libboost1.81-dev || echo libboost-dev)")
for option in "$@"; do
  case $option in
    --test) ;;
    --tidy) packages+=(clang-tidy-14) ;;
    --fuzz) packages+=(clang-14 libclang-rt-14-dev llvm-14) ;;
    --aarch64) packages+=(g++-aarch64-linux-gnu) ;;
    --armv7) packages+=(g++-arm-linux-gnueabihf) ;;
    --cortex-m) packages+=(gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm) ;;
    --package) packages+=(lintian pkg-config python3-venv python3-setuptools python3-wheel) ;;
    --web) packages+=(chromium chromium-driver) ;;
    *) refuse "no option $option" ;;
  esac
done

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    grep -qx "$package" <<<"$installed" || printf '%s\n' "$package"
  done
}

install_packages() {
  command -v apt-get >/dev/null || die "this script installs with apt; elsewhere see cmake/Dependencies.cmake"
  installed=$(dpkg-query -W -f '${binary:Package} ${db:Status-Status}\n' 2>/dev/null |
    sed -n 's/^\([^: ]*\)\(:[a-z0-9]*\)\? installed$/\1/p')
  local missing
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
    die "installing packages needs root or sudo; ask an administrator for: apt-get install ${missing[*]}"
  say "installing ${missing[*]}"
  retry as_root apt-get -o DPkg::Lock::Timeout=300 -q update || die "apt-get update: $reason"
  retry as_root apt-get -o DPkg::Lock::Timeout=300 -q -y --no-install-recommends install "${missing[@]}" ||
    die "apt-get install ${missing[*]}: $reason"
}

# --- third-party sources ---------------------------------------------------------------------------------------

# The Debian mirrors this machine already uses, whichever format names them (deb822 or one line).
mirrors() {
  apt-get -o Dir::State::Lists="$1/no-lists" indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' |
    sort -u | grep -v -- '-security' || true
}

# A private apt state for suites other than the machine's; nothing below /var or /etc changes.
apt_private() {
  apt-get -q -o Dir::State::Lists="$apt_dir/lists" -o Dir::Cache="$apt_dir/cache" \
    -o Dir::Etc::SourceList="$apt_dir/sources.list" -o Dir::Etc::SourceParts="$apt_dir/no-parts" \
    -o Acquire::Check-Valid-Until=false -o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@"
}

# The package lists are signed and checked where the machine's keyring knows the suite's keys. A keyring older than
# the suite does not; then the lists are read unsigned, which is sound because they only say where a tarball lies:
# what is trusted is the SHA-256 of the tarball, pinned in cmake/dependency_versions.cmake and checked before
# anything is unpacked.
read_lists() {
  local option suite mirror
  for option in signed-by=/usr/share/keyrings/debian-archive-keyring.gpg trusted=yes; do
    for mirror in $(mirrors "$apt_dir"); do
      for suite in $suites; do printf 'deb-src [%s] %s %s main\n' "$option" "$mirror" "$suite"; done \
        >"$apt_dir/sources.list"
      rm -rf "$apt_dir/lists"
      mkdir -p "$apt_dir/lists/partial"
      apt_private -o APT::Update::Error-Mode=any update && return 0
    done
  done
  return 1
}

# download PACKAGE SUITE TARBALL: leaves TARBALL in $apt_dir/download.
download() {
  cd "$apt_dir/download" && apt_private source --download-only --tar-only "$1/$2" || return 1
  [ -f "$3" ] || { echo "E: $2 holds another version now: $(ls "$1"_*.orig.tar.*)"; return 1; }
}

# clone NAME URL COMMIT SHA256: the same source from upstream, for when the suite has moved on. The commit's hash pins
# it as the tarball's does.
clone() {
  local partial="$deps/src/.$1.$$"
  rm -rf "$partial"
  git init -q "$partial" && git -C "$partial" fetch -q --depth 1 "$2" "$3" &&
    git -C "$partial" -c advice.detachedHead=false checkout -q "$3" || { rm -rf "$partial"; return 1; }
  rm -rf "$partial/.git"
  printf '%s\n' "$3" >"$partial/.cria-unpacked"
  mv -T "$partial" "$deps/src/$1-$4"
}

has_hash() { [ "$(sha256sum <"$1" | cut -d' ' -f1)" = "$2" ]; }

# unpack NAME TARBALL SHA256: into $deps/src/NAME-SHA256, complete or not at all.
unpack() {
  local partial="$deps/src/.$1.$$" target="$deps/src/$1-$3" entries
  has_hash "$2" "$3" || die "$2 has another SHA-256 than $3 (cmake/dependency_versions.cmake)"
  rm -rf "$partial"
  mkdir -p "$partial/raw"
  tar -xf "$2" -C "$partial/raw" --no-same-owner || die "cannot unpack $2"
  entries=("$partial"/raw/*)
  # Most tarballs have one top folder; XNNPACK's has none.
  if [ ${#entries[@]} -eq 1 ] && [ -d "${entries[0]}" ]; then mv "${entries[0]}" "$partial/out"; else mv "$partial/raw" "$partial/out"; fi
  printf '%s\n' "$3" >"$partial/out/.cria-unpacked"
  if [ ! -f "$target/.cria-unpacked" ]; then  # another run may have been faster
    rm -rf "$target"
    mv -T "$partial/out" "$target" || [ -f "$target/.cria-unpacked" ]
  fi
  rm -rf "$partial"
}

fetch_sources() {
  local name package version suite sha256 url commit tarball rows todo=() row lists_read=no why
  mapfile -t rows < <(sed -n 's/^  "\(.*\)"$/\1/p' "$root/cmake/dependency_versions.cmake")
  [ ${#rows[@]} -gt 0 ] || die "no rows in cmake/dependency_versions.cmake"
  suites=""
  for row in "${rows[@]}"; do
    IFS='|' read -r name package version suite sha256 url commit <<<"$row"
    [ ! -f "$deps/src/$name-$sha256/.cria-unpacked" ] || continue
    tarball=$deps/${package}_$version.orig.tar.xz
    if [ -f "$tarball" ] && has_hash "$tarball" "$sha256"; then
      unpack "$name" "$tarball" "$sha256"
      continue
    fi
    todo+=("$row")
    [[ " $suites " == *" $suite "* ]] || suites+=" $suite"
  done
  [ ${#todo[@]} -gt 0 ] || return 0

  apt_dir=$(mktemp -d)
  trap 'rm -rf "$apt_dir"' EXIT
  mkdir -p "$apt_dir"/{lists,cache/archives}/partial "$apt_dir/download" "$apt_dir/no-lists/partial" "$deps/src"
  say "reading the package lists of$suites"
  if retry read_lists; then lists_read=yes; else why="cannot read the package lists of$suites: $reason"; fi
  for row in "${todo[@]}"; do
    IFS='|' read -r name package version suite sha256 url commit <<<"$row"
    tarball=${package}_$version.orig.tar.xz
    say "fetching $name $version"
    if [ $lists_read = yes ]; then
      if (retry download "$package" "$suite" "$tarball" || { echo "$reason" >"$apt_dir/why"; exit 1; }); then
        unpack "$name" "$apt_dir/download/$tarball" "$sha256"
        mv "$apt_dir/download/$tarball" "$deps/"
        continue
      fi
      why="cannot download $tarball from $suite: $(cat "$apt_dir/why")"
    fi
    command -v git >/dev/null && retry clone "$name" "$url" "$commit" "$sha256" ||
      die "$why (nor does upstream answer: $url)"
    say "note: $why; took commit $commit from upstream"
  done
}

install_packages
fetch_sources
