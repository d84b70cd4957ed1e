#!/usr/bin/env bash
# Builds the firmware for a Cortex-M55 and runs its tests on the emulated board; installs what that needs.
#   scripts/test_cortex_m55.sh [ARGUMENTS OF CTEST...]
# CRIA_HELIUM=ON in the environment: with vector instructions, in a build folder of its own.
set -euo pipefail
exec </dev/null
export DEBIAN_FRONTEND=noninteractive

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=(gcc-arm-none-eabi libnewlib-arm-none-eabi libstdc++-arm-none-eabi-newlib qemu-system-arm)
helium=${CRIA_HELIUM:-OFF}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -E "$@"; fi
}

if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
  as_root apt-get -o DPkg::Lock::Timeout=300 -q update
  as_root apt-get -o DPkg::Lock::Timeout=300 -q -y --no-install-recommends install "${packages[@]}"
fi
"$root/scripts/setup.sh"

cd "$root"
build=build/cortex-m55
[ "$helium" = OFF ] || build=build/cortex-m55-helium
jobs=$(nproc)
cmake --preset cortex-m55 -B "$build" -DCRIA_HELIUM="$helium"
cmake --build "$build" --parallel "$jobs"
echo "== tests: $build"
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "$@"
# What the tests measured.
sed -n -e '/peak RAM:/p' -e '/instructions a decoded token/p' -e '/^image  /,/^cria_firmware_minimal/p' -e '/^flips /p' \
  -e '/^sizes /p' "$build/Testing/Temporary/LastTest.log"
