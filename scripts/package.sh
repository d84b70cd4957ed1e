#!/usr/bin/env bash
# Builds the Debian packages cria, libcria0, libcria-dev and python3-cria for one architecture and tests them: contents, lintian, installation
# into a throwaway root, a chat, and C programs linked with them. Foreign packages run under qemu-user.
#   scripts/package.sh arm64|armhf|amd64      leaves them in build/PRESET/packages
set -euo pipefail
exec </dev/null

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
case $#:${1-} in
  1:arm64) preset=aarch64 ;;
  1:armhf) preset=armv7 ;;
  1:amd64) preset=release ;;
  *) refuse "one architecture is needed: arm64, armhf or amd64" ;;
esac

cd "$root"
if [ "$preset" = release ]; then scripts/setup.sh --package; else scripts/setup.sh --package "--$preset"; fi
# The changelog's date is the commit's, so that the same commit gives the same package.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

cmake --preset "$preset"
cmake --build --preset "$preset" --parallel "$(nproc)" --target cria cria-convert cria_runtime cria_host
ctest --preset "$preset" --tests-regex '^package$' --verbose --no-tests=error
