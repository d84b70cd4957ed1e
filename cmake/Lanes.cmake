# Lanes: which tests run when. This table is what scripts/test.sh --help prints; docs/testing.md explains it.
#
# lane | what it runs | minutes on two cores at most: first, again (budgets: docs/adr/0017-lanes.md) | when
set(CRIA_LANES
  "default|release: its tests but the long ones; dev (address and undefined-behaviour sanitizers): units of quant, runtime, the converter and the server, whole models that are hostile or moved in memory, every fuzz corpus; cortex-m33: its short set|25, 10|before a push; CI runs it"
  "changed|of the release build, what depends on the files that differ from main, by folder|0.5 to 8|while you work"
  "all|release, dev, cortex-m33, cortex-m55 and cortex-m4 whole: long tests, whole programs under sanitizers, packages, pages, developers' scripts, and one random seed more|80, 45|before an issue is called done, and before a release")

# A test is in one lane of a build, by a label that is set where the test is defined: "default", else "all". In which kinds of
# build it is in the default lane is said there too: release (native, without sanitizers), sanitized, board (firmware).
if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  set(CRIA_BUILD_KIND board)
elseif(CRIA_SANITIZE OR CRIA_INSTRUMENT)
  set(CRIA_BUILD_KIND sanitized)
elseif(CMAKE_CROSSCOMPILING)
  set(CRIA_BUILD_KIND cross)
else()
  set(CRIA_BUILD_KIND release)
endif()
add_custom_target(lane_programs)  # what scripts drive and look at
add_custom_target(lane_default)  # the tests of the default lane, and those where scripts are in it
if(CRIA_BUILD_KIND STREQUAL "release")
  add_dependencies(lane_default lane_programs)
endif()

# cria_in_lane(<test> <kinds of build> [<targets>]): labels a test, and builds for its lane what it runs. A name with "_slow_"
# is in no default lane.
function(cria_in_lane test kinds)
  set(lane all)
  if(CRIA_BUILD_KIND IN_LIST kinds AND NOT test MATCHES "_slow_")
    set(lane default)
    if(ARGN)
      add_dependencies(lane_default ${ARGN})
    endif()
  endif()
  set_property(TEST ${test} APPEND PROPERTY LABELS ${lane})
endfunction()

# What scripts/test.sh --changed runs: a file whose path matches the first expression asks for the tests of the release build
# whose names match the second one. @1@ is the path's first group, with dots for slashes.
#
# path => tests
set(CRIA_CHANGED
  "^quant/ => ^(quant|runtime)[.]|^system[.](exact_bits|greedy_tokens|bad_models)"
  "^runtime/(base|loading|text|decode|chat|json|kernels|backends)/ => ^runtime[.]@1@[.]|^system[.]greedy_tokens"
  "^runtime/include/ => ^(runtime|system|hosted)[.]"
  "^converter/ => ^converter[.]|^cli[.]converter_(cli|messages|outputs|hostile)_test$"
  "^platforms/hosted/([a-z]+)/ => ^hosted[.]@1@[.]|^cli[.]cria_run_test$"
  "^platforms/hosted/(engine|serve)/ => ^cli[.]server"
  "^python/ => ^python[.]"
  "^scripts/ => ^cli[.](test_script|script_arguments|compare_script|measurements_table|models_table)_test$"
  "^docs/measurements/ => ^cli[.]measurements_table_test$"
  "^models/ => ^system[.]|^cli[.]cria_run_test$"
  "^tests/unit/(quant|runtime/[a-z]+|converter)/ => ^@1@[.]"
  "^tests/unit/platforms/(hosted/[a-z]+)/ => ^@1@[.]"
  "^tests/system/([a-z0-9_]+_test)[.]cpp$ => ^system[.]@1@$"
  "^tests/cli/([a-z0-9_]+_test)[.]py$ => ^cli[.]@1@$"
  "^tests/(web|package|bench)/ => ^@1@([.]|$)"
  "^tests/tools/ => ^cli[.](test_script|second_reader|text_probe|json_schemas|hostile_inputs)_test$|^data[.]"
  "^tests/fuzz/ => ^fuzz[.]"
  "^tests/data/corpus/([a-z0-9_]+) => ^fuzz[.]@1@$"
  "^tests/data/golden/ => ^system[.]"
  "^tests/support/ => ^(quant|runtime|converter|hosted|system|fuzz)[.]"
  "^(CMakeLists[.]txt|cmake/|CMakePresets[.]json) => ^(quant|runtime)[.]"
  "[.]h$|^tests/house/ => ^house_long[.]"
  "^ => ^house[.]")
