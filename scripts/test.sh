#!/usr/bin/env bash
# Sets the machine up, builds, and runs every test through ctest: first the release build, then the one with the
# address and undefined-behaviour sanitizers (without the tests labelled slow).
#   scripts/test.sh [--preset NAME]      one preset only: release, dev or tsan
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
presets=(release dev)
case $#:${1-} in
  0:) ;;
  2:--preset) presets=("$2") ;;
  *) echo "usage: scripts/test.sh [--preset NAME]" >&2; exit 2 ;;
esac

"$root/scripts/setup.sh"
cd "$root"
jobs=$(nproc)
for preset in "${presets[@]}"; do
  cmake --preset "$preset"
  cmake --build --preset "$preset" --parallel "$jobs"
done
status=0
for preset in "${presets[@]}"; do
  echo "== tests: $preset"
  ctest --preset "$preset" --parallel "$jobs" || status=1
done
exit $status
