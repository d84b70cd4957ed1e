#!/usr/bin/env bash
# Runs clang-tidy over the project's sources with the release build's flags; no warning is expected.
#   scripts/tidy.sh [FILE...]      default: every source below quant, converter, runtime and platforms
set -euo pipefail
. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
files=()
for file in "$@"; do
  [ -f "$file" ] || refuse "no file $file"
  files+=("$(realpath -- "$file")")
done
cd "$root"
scripts/setup.sh --tidy
mkdir -p build
cmake --preset release >build/tidy-configure.log
[ ${#files[@]} -gt 0 ] || mapfile -t files < <(python3 - <<'PY'
import json
import os
folders = ("quant", "converter", "runtime", "platforms")
commands = json.load(open("build/release/compile_commands.json"))
names = {os.path.relpath(command["file"]) for command in commands}
print("\n".join(sorted(name for name in names if name.split(os.sep)[0] in folders)))
PY
)
[ -n "${files[0]-}" ] || { echo "tidy: nothing to check" >&2; exit 1; }
# clang 14 knows fewer flags than the GCC that wrote the compile commands.
printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" \
  clang-tidy-14 --quiet -p build/release --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-ignored-optimization-argument 2>&1 |
  sed '/ warnings\{0,1\} generated\.$/d'
echo "tidy: ${#files[@]} files without a warning" >&2
