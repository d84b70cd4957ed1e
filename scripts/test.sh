#!/usr/bin/env bash
# Sets the machine up, builds, and runs tests through ctest. Which tests, the lane says:
#   scripts/test.sh                      the default lane
#   scripts/test.sh --changed [COMMIT]   what depends on the files that differ from COMMIT (default: main)
#   scripts/test.sh --all                everything
#   scripts/test.sh --target NAME        one build, whole: release, dev, tsan, aarch64, armv7, cortex-m33, cortex-m55,
#                                        cortex-m4, fuzz; --target may be said again
#   scripts/test.sh --help               this, and what each lane runs
# Ends with how long each part took, the tests and translation units that took longest, and what failed or was skipped.
set -euo pipefail
exec </dev/null

# The lanes, for --help.
usage_more() {
  local name what minutes when
  while IFS='|' read -r name what minutes when; do
    printf '\nlane %s: %s minutes on two cores, %s\n' "$name" "$minutes" "$when"
    fold -s -w 96 <<<"$what" | sed 's/^/  /'
  done < <(sed -n '/^set(CRIA_LANES$/,/)$/s/^  "\(.*\)")\?$/\1/p' "$root/cmake/Lanes.cmake")
}

. "$(dirname "$(realpath "${BASH_SOURCE[0]}")")/common.sh"
known="release dev tsan aarch64 armv7 cortex-m33 cortex-m55 cortex-m4 fuzz"

# setup_TARGET: what it needs beyond the basics; presets_TARGET where it is not the preset of its name.
setup_release() { scripts/setup.sh --test $([ "$lane" = all ] && echo --package --web); }
setup_aarch64() { scripts/setup.sh --test --package --aarch64; }
setup_armv7() { scripts/setup.sh --test --package --armv7; }
setup_cortex-m55() { scripts/setup.sh --test --cortex-m; }
setup_fuzz() { scripts/setup.sh --fuzz; }
setup_cortex-m33() { setup_cortex-m55; }
setup_cortex-m4() { setup_cortex-m55; }
presets_cortex-m55() { echo cortex-m55 cortex-m55-helium cortex-m55-blocks; }

setup() {
  if declare -F "setup_$1" >/dev/null; then "setup_$1"; else scripts/setup.sh --test; fi
}
presets() {
  if declare -F "presets_$1" >/dev/null; then "presets_$1"; else echo "$1"; fi
}

# 754 -> "12 min 34 s"
minutes() { echo "$(($1 / 60)) min $(($1 % 60)) s"; }

# What tests of a cross build measured or sampled, from ctest's log.
measured() {
  sed -n -E -e '/peak RAM:/p' -e '/instructions a .*token/p' -e '/^image  /,/^cria_firmware_minimal/p' \
    -e '/^(flips|sizes) /p' -e '/results compared/p' -e '/^(cortex-[a-z0-9]+: )?[0-9]+ of [0-9]+ (smaller arenas|bits|lengths)/p' \
    -e '/^(cortex-[a-z0-9]+: )?[0-9]+ allocations in/p' \
    "build/$1/Testing/Temporary/LastTest.log"
}

# What failed in ctest's log of a preset: each test's name and the last lines of its output that say why, or its last lines.
# The end of a log is all that some see of it.
failures() {
  plain <"build/$1/ctest.log" | awk '
    function say_why(i) {
      if (n == 0 && running == "") for (i = 1; i <= m; i++) why[++n] = last[i]
      if (running != "") why[++n] = "it ended in " running
      running = ""
      for (i = n > most ? n - most + 1 : 1; i <= n; i++) print "    " why[i]
      n = m = 0
    }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / || /^[0-9]+% tests passed/ { say_why(); head = ""; fails = 0 }
    # What cannot be started has its state on a line of its own.
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: [^*]*$/ && !/ Passed / { head = $0; next }
    head != "" && /^\*\*\*/ { $0 = head $0; head = "" }
    /^ *[0-9]+\/[0-9]+ Test +#[0-9]+: / {
      fails = /\*\*\*/ && !/\*\*\*Skipped/ && !/\(Disabled\)/
      if (fails) { sub(/^ *[0-9]+\/[0-9]+ Test +#/, "  "); sub(/ \.+(\*\*\*)?/, ": "); sub(/\*\*\*/, " "); print }
      next
    }
    !fails || /^ *Start +[0-9]+: / || /^ *$/ { next }
    { if (m == most) { for (i = 1; i < m; i++) last[i] = last[i + 1] } else { m++ }; last[m] = substr($0, 1, 300) }
    # Of a program of many cases: which one failed, or was running when the program ended.
    /^\[ RUN      \] / { running = $4; next }
    /^\[ +(OK|FAILED|SKIPPED) +\] / { running = ""; if (/^\[  FAILED  \] .*ms\)$/) why[++n] = substr($0, 1, 300); next }
    /^(FAIL|ERROR): |^(FAILED|E )|Error(:|$)|[Ee]xception|Expired: |: Failure$|Sanitizer|error: |what\(\)|Assertion/ ||
      /^ *(Which is|Actual|Expected): |^broken promise: / { why[++n] = substr($0, 1, 300) }
    END { say_why() }' most=8
}

# Without a terminal's colours, and as ASCII: other bytes may be no text in this locale.
plain() { LC_ALL=C tr -d '\000\200-\377' | sed 's/\x1b\[[0-9;]*[mK]//g'; }

# The first things that a build complained of; CMake's reason is two lines below. Commands of what fails are in its log too,
# and long.
build_errors() {
  plain <"build/$1/build.log" | awk '
    /(^|[^-=])[Ee]rror: |^FAILED: |: (undefined reference to|multiple definition of|cannot find -l)/ && left == 0 { left = 1 }
    /^([^ ]*[\/-])?ld(\.[a-z]+)?:/ && !/ warning: |: in function / && left == 0 { left = 1 }
    /CMake Error/ { left = 3 }
    left > 0 && n < 6 && !/^ *$/ { left--; n++; print substr($0, 1, 300) }
    END { if (n == 0) print "see " file }' file="build/$1/build.log"
}

does_not_build() { summary+=("== $1" "it does not build" "$(build_errors "$1")"); }

# logged PRESET COMMAND...: its output goes to the preset's build log too.
logged() { local log=build/$1/build.log; shift; "$@" 2>&1 | tee -a "$log"; }

# run PRESET [TESTS...]: builds and tests it, or what of it is in the lane, or with TESTS what has such a name; leaves the times
# and ctest's closing line in the summary.
run() {
  local preset=$1 status=0 begin=$SECONDS built since build=() choice=() sample=() chosen
  shift
  since=$(date +%s)
  echo "== $preset, lane $lane"
  { mkdir -p "build/$preset" && : >"build/$preset/build.log"; } 2>/dev/null ||
    { summary+=("== $preset" "build/$preset cannot be written to"); return 1; }
  logged "$preset" cmake --preset "$preset" || { does_not_build "$preset"; return 1; }
  if [ $# -gt 0 ]; then
    mapfile -t chosen < <(ctest --preset "$preset" --show-only=json-v1 | python3 tests/tools/changed_tests.py chosen "$@")
    [ ${#chosen[@]} -eq 2 ] || { summary+=("== $preset" "ctest cannot list its tests"); return 1; }
    choice=(-R "${chosen[0]}") build=(--target ${chosen[1]})
  elif [ "$lane" = default ] || [ "$chosen_lane $preset" = "--all armv7" ]; then
    choice=(-L '^default$') build=(--target lane_default)
  fi  # else it is everything
  logged "$preset" cmake --build --preset "$preset" --parallel "$(nproc)" "${build[@]}" || { does_not_build "$preset"; return 1; }
  built=$SECONDS
  # Elsewhere its targets replay their corpora. Here clang is to take what GCC takes.
  if [ "$preset" = fuzz ]; then
    summary+=("== fuzz: built in $(minutes $((built - begin)))" "scripts/fuzz.sh runs its programs")
    return 0
  fi
  : >"build/$preset/ctest.log"  # of this run alone
  # Long sweeps (tests/support/sampling.h) try a part of their cases here; cross builds and tsan choose their own.
  case ${chosen_lane:-$lane}-$preset in
    default-release) sample=(CRIA_TEST_ONE_IN=2) ;;
    default-dev) sample=(CRIA_TEST_ONE_IN=7) ;;
    --all-dev) sample=(CRIA_TEST_ONE_IN=3) ;;
  esac
  # One more than there are processors: some tests wait for clocks. The output of what passes is kept whole, for what it skips.
  env "${sample[@]}" ctest --preset "$preset" --parallel "$(($(nproc) + 1))" --output-log "build/$preset/ctest.log" \
    --test-output-size-passed 10000000 "${choice[@]}" || status=1
  case $preset in release | dev | tsan) ;; *) measured "$preset" ;; esac
  summary+=("== $preset: built in $(minutes $((built - begin))), tested in $(minutes $((SECONDS - built)))"
    "$(plain <"build/$preset/ctest.log" | grep -E '^[0-9]+% tests passed' || echo "no test ran to its end")")
  if [ -s "build/$preset/ctest.log" ] && [ $status != 0 ]; then summary+=("$(failures "$preset")"); fi
  python3 tests/tools/test_report.py slowest "build/$preset" "$since" >"build/$preset/slowest.txt" && reports+=("build/$preset/slowest.txt")
  return $status
}

# The files that differ from a commit (of one that was moved both names), and those that are new.
changed_files() {
  git diff --name-only --no-renames -z "$1"
  git ls-files --others --exclude-standard -z
}

# choose OPTION: a run has one of those that name a lane.
choose() {
  [ -z "$chosen_lane" ] || [ "$chosen_lane" = "$1" ] || refuse "$chosen_lane and $1 exclude each other"
  chosen_lane=$1
}

# In a function, so that bash has read it all before it begins: the file may change meanwhile.
main() {
  local required=() optional=() status=0 target preset base=main common asked tests=() chosen_lane=
  while [ $# -gt 0 ]; do
    case $1 in
      --all) choose "$1" ;;
      --changed)
        choose "$1"
        if [[ $# -gt 1 && $2 != -* ]]; then base=$2; shift; fi ;;
      --target)
        choose "$1"
        [[ ${2-} =~ ^[a-z0-9-]+$ && " $known " == *" $2 "* ]] || refuse "no target '${2-}'; there are: $known"
        [[ " ${required[*]} " == *" $2 "* ]] || required+=("$2")
        shift ;;
      *) refuse "no option '$1'" ;;
    esac
    shift
  done
  cd "$root"
  summary=() reports=() lane=all

  # A board or armv7 is left out, and said to be, where its tools cannot be installed.
  case $chosen_lane in
    "") lane=default required=(release dev) optional=(cortex-m33) ;;
    --all)
      required=(release dev) optional=(cortex-m33 cortex-m55 cortex-m4 armv7 fuzz)
      export CRIA_TEST_RANDOM_SEED=${CRIA_TEST_RANDOM_SEED:-$RANDOM}
      summary+=("== CRIA_TEST_RANDOM_SEED=$CRIA_TEST_RANDOM_SEED") ;;
    --changed)
      lane=changed required=(release)
      command -v git >/dev/null || refuse "--changed needs git"
      common=$(git merge-base HEAD "$base" 2>&1) ||
        refuse "--changed: $(head -n 1 <<<"${common:-HEAD and $base have no commit in common}")"
      while read -r asked; do
        case $asked in
          --target\ *) summary+=("== not run: scripts/test.sh $asked, the build that tests some of what changed") ;;
          *) tests+=("$asked") ;;
        esac
      done < <(changed_files "$common" | python3 tests/tools/changed_tests.py asked)
      [ ${#tests[@]} -gt 0 ] || { echo "nothing differs from $base"; exit 0; } ;;
  esac
  for target in "${required[@]}"; do setup "$target"; done
  for target in "${required[@]}" "${optional[@]}"; do
    if [[ " ${optional[*]} " == *" $target "* ]]; then
      setup "$target" || { summary+=("== $target: left out, its tools cannot be installed"); continue; }
    fi
    for preset in $(presets "$target"); do run "$preset" "${tests[@]}" || status=1; done
  done
  [ ${#reports[@]} -eq 0 ] || python3 tests/tools/test_report.py join "${reports[@]}"
  printf '%s\n' "" "${summary[@]}" "== lane $lane: $(minutes "$SECONDS")"
  exit $status
}

main "$@"
