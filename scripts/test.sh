#!/usr/bin/env bash
# Sets the machine up, builds, and runs every test through ctest: release, dev (the address and undefined-behaviour
# sanitizers, without the tests labelled slow), and the cross builds under emulators: cortex-m55, aarch64, armv7. A cross
# target whose tools cannot be installed, or that an hour has gone by before, is left out and said to be.
#   scripts/test.sh [--target NAME]...   only these, tsan (the thread sanitizer) being one more; nothing is left out
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
known="release dev tsan cortex-m55 aarch64 armv7"
required=()
optional=()
while [ $# -gt 0 ]; do
  case $#:$1 in
    1:*) ;;
    *:--target | *:--preset)
      [[ " $known " != *" $2 "* ]] || { required+=("$2"); shift 2; continue; } ;;
  esac
  echo "usage: scripts/test.sh [--target ${known// /|}]..." >&2
  exit 2
done
[ ${#required[@]} -gt 0 ] || { required=(release dev); optional=(cortex-m55 aarch64 armv7); }
last_start=$((60 * 60))  # seconds after which no optional target begins

cd "$root"
jobs=$(nproc)

# setup_TARGET: what it needs beyond scripts/setup.sh's basics; build_TARGET and test_TARGET where presets do not serve.
setup_release() { scripts/setup.sh --package; }
setup_aarch64() { scripts/setup.sh --package --aarch64; }
setup_armv7() { scripts/setup.sh --package --armv7; }
setup_cortex-m55() { scripts/setup.sh --cortex-m55; }

# step VERB TARGET: VERB_TARGET when there is such a function, else VERB_preset.
step() {
  if declare -F "$1_$2" >/dev/null; then "$1_$2"; else "$1_preset" "$2"; fi
}
setup_preset() { scripts/setup.sh; }
build_preset() { cmake --preset "$1" && cmake --build --preset "$1" --parallel "$jobs"; }
test_preset() { ctest --preset "$1" --parallel "$jobs"; }
# Then what the firmware's tests measured.
test_cortex-m55() {
  local status=0
  test_preset cortex-m55 || status=1
  sed -n -e '/peak RAM:/p' -e '/instructions a decoded token/p' -e '/^image  /,/^cria_firmware_minimal/p' \
    -e '/^flips /p' -e '/^sizes /p' build/cortex-m55/Testing/Temporary/LastTest.log
  return $status
}

status=0
for target in "${required[@]}"; do step setup "$target"; done
for target in "${required[@]}" "${optional[@]}"; do
  if [[ " ${required[*]} " != *" $target "* ]]; then
    [ "$SECONDS" -lt "$last_start" ] || { echo "== left out: $target: $((SECONDS / 60)) minutes have gone by"; continue; }
    step setup "$target" || { echo "== left out: $target: its tools cannot be installed"; continue; }
  fi
  echo "== $target"
  step build "$target"
  step test "$target" || status=1
done
exit $status
