#!/usr/bin/env bash
# Builds cria's programs and runs a script of this folder that measures them; what is wrong with its arguments is said
# before minutes of building, and a failed build is no missed bar: exit code 2.
#   scripts/run_built.sh NAME [ARG...]   scripts/NAME.py, which knows --check
set -euo pipefail

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
script=$root/scripts/${1:-}.py
[ -f "$script" ] || refuse "the name of a script is needed, as compare; '${1:-}' is none"
shift
case " $* " in *" --help "* | *" -h "*) exec python3 "$script" --help ;; esac
if command -v python3 >/dev/null; then python3 "$script" --check "$@"; fi
"$root/scripts/setup.sh" || exit 2
cmake -S "$root" --preset release >/dev/null || exit 2
cmake --build "$root/build/release" --target cria cria-convert >/dev/null || exit 2
# What was built, whatever else the environment names.
exec env CRIA_BIN_DIR="$root/build/release/bin" python3 "$script" "$@"
