#!/usr/bin/env bash
# Fuzzes with libFuzzer: sets the machine up, builds the preset fuzz, and gives each target so many seconds. Begins with
# the corpora, tests/data/corpus/<target>.tar; new inputs go to build/fuzz/corpus, never into the repository. Ends with a table;
# a finding is exit status 1, and its input is named (tests/fuzz/README.md).
#   scripts/fuzz.sh TARGET|all SECONDS [--jobs N]   TARGET: open, tokenizer_import, ...
#   scripts/fuzz.sh list                           names all targets
#   scripts/fuzz.sh minimize TARGET|all             adds what was found to the corpus, as far as it covers more
#   scripts/fuzz.sh add TARGET FILE...              adds these inputs to the corpus, under their names
set -euo pipefail
exec </dev/null
unset TAR_OPTIONS

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
build=$root/build/fuzz
corpora=$root/tests/data/corpus
most_bytes=8192                                     # of an input that joins the repository
most_seconds=600                                    # of an input that hangs; targets limit processor time themselves
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
export ASAN_SYMBOLIZER_PATH=/usr/bin/llvm-symbolizer-14

targets() { (cd "$root/tests/fuzz" && printf '%s\n' ./*_fuzz.cpp) | sed 's|^\./\(.*\)_fuzz\.cpp$|\1|'; }

# Longest input: long enough that work which grows with the square of it is seen to.
max_len() {
  case $1 in
    server_request | ollama_request | tool_request) echo 262144 ;; # more values than a request may have
    json | safetensors | chat_template) echo 65536 ;;
    tokenizer_import) echo 32768 ;;
    sentencepiece) echo 16384 ;;
    *) echo 4096 ;;
  esac
}

# unpack TARGET: its corpus into build/fuzz/seeds/TARGET.
unpack() {
  local seeds=$build/seeds/$1
  rm -rf "$seeds"
  mkdir -p "$seeds"
  [ ! -f "$corpora/$1.tar" ] || tar -xmf "$corpora/$1.tar" -C "$seeds"
}

# pack TARGET: the reverse, and what the corpus is now. The same inputs are the same bytes, whoever packs them
# (tests/house/corpora.py).
pack() {
  local seeds=$build/seeds/$1 partial=$build/seeds/$1.tar
  if [ -n "$(ls -A "$seeds")" ]; then
    (cd "$seeds" && find . -type f -printf '%P\0' | LC_ALL=C sort -z |
      tar -cf "$partial" --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 \
        --hard-dereference --no-recursion --null -T -)
    chmod 644 "$partial"
    mv "$partial" "$corpora/$1.tar"
  fi
  printf '%s: %s files, %s bytes\n' "$1" "$(find "$seeds" -type f | wc -l)" \
    "$(find "$seeds" -type f -printf '%s\n' | awk '{ n += $1 } END { print n + 0 }')"
}

# run TARGET SECONDS: its log is build/fuzz/logs/TARGET.log.
run() {
  local found=$build/corpus/$1 dictionary=$root/tests/data/dictionaries/$1.dict options=()
  mkdir -p "$found" "$build/findings" "$build/logs"
  [ ! -f "$dictionary" ] || options+=("-dict=$dictionary")
  unpack "$1"
  "$build/tests/bin/$1_fuzz" "$found" "${options[@]}" "$build/seeds/$1" -max_total_time="$2" -timeout=$most_seconds \
    -report_slow_units=$most_seconds -rss_limit_mb=2048 \
    -max_len="$(max_len "$1")" -print_final_stats=1 -artifact_prefix="$build/findings/$1-" \
    >"$build/logs/$1.log" 2>&1 || true
}

# report TARGET: a line of the table; status 1 when there was a finding.
report() {
  local log=$build/logs/$1.log executions speed covered features files artifact
  executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  covered=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  features=$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
  files=$(find "$build/corpus/$1" -type f | wc -l)
  artifact=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  if [ -n "$artifact" ] || [ -z "$executions" ]; then  # it did not end by itself
    printf '%-18s %12s %8s %8s %8s %8s  %s\n' "$1" "${executions:--}" "${speed:--}" "${covered:--}" "${features:--}" \
      "$files" "${artifact:-it did not run: $log}"
    return 1
  fi
  printf '%-18s %12s %8s %8s %8s %8s  none\n' "$1" "$executions" "$speed" "$covered" "$features" "$files"
}

build() {
  "$root/scripts/setup.sh" --fuzz
  cd "$root"
  cmake --preset fuzz >"$root/build/fuzz-configure.log" 2>&1 || { cat "$root/build/fuzz-configure.log" >&2; exit 1; }
  cmake --build --preset fuzz --parallel "$(nproc)"
}

minimize() {
  local target
  for target in "$@"; do
    unpack "$target"
    mkdir -p "$build/corpus/$target"
    # By edges, not by how often each is taken: a corpus of hundreds of files becomes one of dozens.
    "$build/tests/bin/${target}_fuzz" -merge=1 -use_counters=0 -max_len=$most_bytes -timeout=$most_seconds \
      "$build/seeds/$target" "$build/corpus/$target" 2>&1 | tail -n 1
    pack "$target"
  done
}

# add TARGET FILE...: an input keeps its name; another file of that name is not replaced.
add() {
  local target=$1 file input
  shift
  unpack "$target"
  for file in "$@"; do
    input=$build/seeds/$target/${file##*/}
    [ -f "$file" ] || refuse "no file $file"
    [ ! -e "$input" ] || cmp -s -- "$file" "$input" || refuse "the corpus of $target has another input ${file##*/}"
    cp -- "$file" "$input"
  done
  pack "$target"
}

main() {
  local jobs mode=run seconds=0 chosen target status=0 running=0
  jobs=$(nproc)
  [ "${1:-}" != list ] || { targets; exit 0; }
  if [ "${1:-}" = minimize ]; then
    mode=minimize
    shift
    [ $# -eq 1 ] || refuse "minimize takes one target, or all"
  elif [ "${1:-}" = add ]; then
    mode=add
    shift
    [ $# -ge 2 ] || refuse "add takes a target and files"
  else
    [ $# -ge 2 ] || refuse "a target and seconds are needed"
    seconds=$2
    if [ $# -eq 4 ] && [ "$3" = --jobs ]; then jobs=$4; elif [ $# -ne 2 ]; then refuse "unexpected: ${*:3}"; fi
  fi
  [[ $seconds =~ ^[0-9]+$ ]] || refuse "'$seconds' is no number of seconds"
  [[ $jobs =~ ^[1-9][0-9]*$ ]] || refuse "'$jobs' is no number of jobs"
  mapfile -t chosen < <(targets)
  if [ "$1" != all ] || [ $mode = add ]; then
    [[ " ${chosen[*]} " == *" $1 "* ]] || refuse "no target $1; there are: ${chosen[*]}"
    chosen=("$1")
  fi

  if [ $mode = add ]; then add "$@"; exit 0; fi
  mkdir -p "$root/build"
  build
  # Where the targets put the folders that they import; a target that ends early leaves its own behind.
  if [ -w /dev/shm ]; then TMPDIR=$(mktemp -d /dev/shm/cria-fuzz-XXXXXX); else TMPDIR=$(mktemp -d); fi
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
  if [ $mode = minimize ]; then minimize "${chosen[@]}"; exit 0; fi

  for target in "${chosen[@]}"; do
    if [ "$running" -ge "$jobs" ]; then wait -n || true; running=$((running - 1)); fi
    echo "== $target, $seconds s"
    run "$target" "$seconds" &
    running=$((running + 1))
  done
  wait
  printf '\n%-18s %12s %8s %8s %8s %8s  %s\n' target executions exec/s cov ft corpus findings
  for target in "${chosen[@]}"; do report "$target" || status=1; done
  if [ $status -ne 0 ]; then
    printf '\n%s\n' "To replay a finding: build/fuzz/tests/bin/TARGET_fuzz FILE (the stack is in build/fuzz/logs/TARGET.log)"
  fi
  exit $status
}

main "$@"
