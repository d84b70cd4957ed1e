#!/usr/bin/env bash
# From nothing to a conversation: sets the machine up, builds the release programs, converts the built-in model to
# int4 and opens a chat. Without a terminal it asks three questions and prints the answers.
#   scripts/demo.sh
set -euo pipefail

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
[ $# -eq 0 ] || refuse "it takes no arguments"
cd "$root"
build=build/release
bin=$build/bin
model=build/demo.cria
mkdir -p build

say() { printf 'demo: %s\n' "$*" >&2; }

# step LOG COMMAND...: runs quietly; on failure shows the end of the log.
step() {
  local log=build/$1
  shift
  if ! "$@" >"$log" 2>&1 </dev/null; then
    tail -n 25 "$log" >&2
    say "error: this step failed; the whole log is $root/$log"
    exit 1
  fi
}

build_programs() {
  cmake --preset release && cmake --build --preset release --parallel "$(nproc)" --target cria cria-convert cria_host
}

is_current() {
  [ -f "$model" ] && [ "$model" -nt "$bin/cria-convert" ] &&
    [ -z "$(find models/demo -maxdepth 2 -type f \( -name '*.json' -o -name '*.safetensors' -o -name '*.jinja' \) -newer "$model")" ]
}

scripts/setup.sh
first=""
[ -x "$bin/cria" ] || first=" and, once, XNNPACK and zstd; this takes some minutes"
say "building the programs$first (to follow it: tail -f build/demo-build.log)"
step demo-build.log build_programs
if ! is_current; then
  say "converting models/demo to int4: $model (log: build/demo-convert.log)"
  step demo-convert.log "$bin/cria-convert" models/demo -o "$model" --weights int4 \
    --lora models/demo/tools --chat-template models/demo/tools/chat_template.jinja
fi
say "$bin/cria info $model"
"$bin/cria" info "$model"

if [ -t 0 ] && [ -t 1 ]; then
  say "$bin/cria chat $model (a 3.8M-parameter toy; docs/demo_model.md says what it knows)"
  exec "$bin/cria" chat "$model"
fi
for question in "What is a cria?" "what is 7 + 8" "What is a KV cache?"; do
  printf '\n> %s\n' "$question"
  answer=$(printf '%s\n' "$question" | "$bin/cria" chat "$model" --greedy 2>build/demo-chat.log) ||
    { tail -n 25 build/demo-chat.log >&2; say "error: cria chat failed"; exit 1; }
  [ -n "$answer" ] || { say "error: no answer"; exit 1; }
  printf '%s\n' "$answer"
done
question="what is 7 + 8"
printf '\n> %s   (with the tools add and convert)\n' "$question"
"$bin/cria" run "$model" -p "$question" --tools models/demo/tools/tools.json --greedy 2>build/demo-chat.log ||
  { tail -n 25 build/demo-chat.log >&2; say "error: cria run failed"; exit 1; }
