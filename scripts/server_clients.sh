#!/usr/bin/env bash
# Runs clients that others wrote against `cria serve`: openai, ai with @ai-sdk/openai and @ai-sdk/openai-compatible, @langchain/openai and ollama,
# installed by npm, as this machine has it set up, into a folder that is removed. Needs a network, node and npm; therefore
# no part of the tests. Exits with 1 when a check fails.
#   scripts/server_clients.sh [--packages FOLDER]   a folder with node_modules, when they are installed already
#                             [--url URL --key KEY] another server's, say llama.cpp's as a control; CRIA_CONTROL=1 then
#                                                   leaves out what cria alone promises: the same bytes each time
set -euo pipefail

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
packages="" url="" key="a-key-of-the-test"
while [ $# -gt 0 ]; do
  case $1 in
    --packages | --url | --key) [ $# -gt 1 ] || refuse "$1 needs a value" ;;
    *) refuse "no option $1" ;;
  esac
  printf -v "${1#--}" %s "$2"
  shift 2
done
for tool in node npm; do
  command -v "$tool" >/dev/null || { echo "server_clients: no $tool here" >&2; exit 1; }
done

folder=$(mktemp -d)
server=""
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap cleanup EXIT

echo '{"private": true, "type": "module"}' >"$folder/package.json"
cp "$root"/tests/clients/*.mjs "$folder"
if [ -n "$packages" ]; then
  ln -s "$(realpath "$packages")/node_modules" "$folder/node_modules"
else
  (cd "$folder" && npm install --no-audit --no-fund --no-package-lock --loglevel=error \
    openai ai @ai-sdk/openai @ai-sdk/openai-compatible @langchain/openai @langchain/core zod ollama)
fi
for package in openai ai @ai-sdk/openai @ai-sdk/openai-compatible @langchain/openai @langchain/core zod ollama; do
  version=$(sed -n 's/^ *"version": *"\(.*\)".*/\1/p' "$folder/node_modules/$package/package.json" | head -n 1)
  echo "$package $version"
done

if [ -z "$url" ]; then
  bin=${CRIA_BIN_DIR:-$root/build/release/bin}
  "$bin/cria-convert" "$root/models/demo" -o "$folder/demo.cria" --quiet --chat-template "$root/models/demo/tools/chat_template.jinja"
  echo "$key" >"$folder/keys"
  "$bin/cria" serve "$folder/demo.cria" --port 0 --sessions 4 --api-key-file "$folder/keys" >"$folder/out" 2>"$folder/log" &
  server=$!
  for _ in $(seq 100); do
    url=$(grep -o 'http://[^ ]*' "$folder/out" | head -n 1 || true)
    [ -z "$url" ] || break
    sleep 0.1
  done
  [ -n "$url" ] || { cat "$folder/log" >&2; exit 1; }
fi

failed=0
for client in openai ai_sdk langchain ollama; do
  (cd "$folder" && CRIA_URL=$url CRIA_KEY=$key timeout 300 node "$client.mjs") || failed=1
done
exit $failed
