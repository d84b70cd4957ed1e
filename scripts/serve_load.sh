#!/usr/bin/env bash
# Builds cria, lets 50 clients at `cria serve` for so many seconds, one request in ten hung up on, and holds errors,
# answers, memory and descriptors against their bars; exits with 1 when one is missed. Needs Python and nothing else.
#   scripts/serve_load.sh SECONDS [--clients 50] [--sessions 4] [--queue 24] [--speed] [--only-speed] [--json FILE]
#   --speed: afterwards, what four clients get of a model of random weights, 135M in shape, beside what one gets
set -euo pipefail

exec "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/run_built.sh" serve_load "$@"
