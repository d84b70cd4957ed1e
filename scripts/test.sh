#!/usr/bin/env bash
# Sets the machine up, builds, and runs every test through ctest: release, then dev (the address and undefined-behaviour
# sanitizers, without the tests labelled slow).
#   scripts/test.sh [--target NAME]...   only these: release, dev, tsan; cross builds under emulators: aarch64, armv7,
#                                        cortex-m55 (two presets: without and with Helium)
set -euo pipefail
exec </dev/null

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
known="release dev tsan aarch64 armv7 cortex-m55"
targets=()
while [ $# -gt 0 ]; do
  case $#:$1 in
    1:*) ;;
    *:--target | *:--preset)
      [[ " $known " != *" $2 "* ]] || { targets+=("$2"); shift 2; continue; } ;;
  esac
  echo "usage: scripts/test.sh [--target ${known// /|}]..." >&2
  exit 2
done
[ ${#targets[@]} -gt 0 ] || targets=(release dev)

cd "$root"
jobs=$(nproc)

# setup_TARGET: what it needs beyond scripts/setup.sh's basics; build_TARGET and test_TARGET where presets do not serve.
setup_aarch64() { scripts/setup.sh --aarch64; }
setup_armv7() { scripts/setup.sh --armv7; }
setup_cortex-m55() { scripts/setup.sh --cortex-m55; }

# step VERB TARGET: VERB_TARGET when there is such a function, else VERB_preset.
step() {
  if declare -F "$1_$2" >/dev/null; then "$1_$2"; else "$1_preset" "$2"; fi
}
setup_preset() { scripts/setup.sh; }
build_preset() { cmake --preset "$1" && cmake --build --preset "$1" --parallel "$jobs"; }
test_preset() { ctest --preset "$1" --parallel "$jobs"; }
# Firmware is built and tested without and with the vector instructions.
firmware_presets="cortex-m55 cortex-m55-helium"
build_cortex-m55() {
  local preset
  for preset in $firmware_presets; do build_preset "$preset" || return 1; done
}
# Then what the firmware's tests measured.
test_cortex-m55() {
  local status=0 preset
  for preset in $firmware_presets; do
    test_preset "$preset" || status=1
    echo "-- measured: preset $preset"
    sed -n -e '/peak RAM:/p' -e '/instructions a decoded token/p' -e '/results compared/p' -e '/^flips /p' -e '/^sizes /p' \
      -e '/^image  /,/^cria_firmware_minimal/p' "build/$preset/Testing/Temporary/LastTest.log"
  done
  return $status
}

for target in "${targets[@]}"; do step setup "$target"; done
for target in "${targets[@]}"; do step build "$target"; done
status=0
for target in "${targets[@]}"; do
  echo "== tests: $target"
  step test "$target" || status=1
done
exit $status
