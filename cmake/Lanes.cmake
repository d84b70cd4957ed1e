# Lanes: which tests run when. This table is what scripts/test.sh --help prints; docs/testing.md explains it.
#
# lane | what it runs | minutes on two cores (budgets: docs/adr/0017-lanes.md) | when
set(CRIA_LANES
  "default|release: its tests but the long ones; dev (address and undefined-behaviour sanitizers): units of quant, runtime, the converter and the server, whole models that are hostile or moved in memory, every fuzz corpus; cortex-m33: its short set|at most 25, again 10,|before a push; CI runs it"
  "changed|of the release build, what depends on the files that differ from main, by folder|0.5 to 8|while you work"
  "all|release, dev, cortex-m33, cortex-m55 and cortex-m4 whole: long tests, whole programs under sanitizers, packages, pages, developers' scripts, and one random seed more; armv7: its programs, and the golden tokens; fuzz: its targets, built by clang|at most 105, again 45,|before an issue is called done, and before a release")

# A test is in one lane of a build, by a label that is set where the test is defined: "default", else "all". In which kinds of
# build it is in the default lane is said there too: release (native, without sanitizers), sanitized, board (firmware), cross
# (emulated: scripts/test.sh --all runs these of armv7, so that the programs are compiled for 32 bits).
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
if(CRIA_BUILD_KIND MATCHES "^(release|cross)$")
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
# whose names match the second one. @1@ is the path's first group, with dots for slashes. "--target NAME" stands for tests that
# only that build has; the run's summary says so. house.changed fails for files that ask for nothing, and for names of no test.
#
# path => tests
set(CRIA_CHANGED
  "^quant/ => ^(quant|runtime)[.]|^system[.](exact_bits|greedy_tokens|bad_models|tensor_values)|^fuzz[.](open|verify|chunk)$"
  "^runtime/ => ^system[.]greedy_tokens"
  "^runtime/(base|text|weights|blocks|decode|calls|json|kernels|backends)/ => ^runtime[.]@1@[.]"
  "^runtime/base/ => ^runtime[.]"
  "^runtime/(loading/|weights/|decode/(inspect|load|planning)) => ^system[.](api|bad_models|hostile|open_verify|faulty|mapped_end|reserved|arena)|^fuzz[.](open|verify|chunk)$"
  "^runtime/(text/|decode/text_api) => ^system[.]token|^fuzz[.](chat_template|pre_tokenizer|round_trip|tokenizer_import)$|^cli[.]text_probe_test$"
  "^runtime/decode/ => ^system[.](session|heap_trap|hostile_state)|^fuzz[.]state$"
  "^runtime/chat/ => ^system[.](chat_|hostile_state)|^fuzz[.](chat_|state$)|^cli[.]cria_chat_test$"
  "^runtime/calls/ => ^fuzz[.]calls$"
  "^runtime/json/ => ^fuzz[.]json_schema$|^cli[.](cria_json|json_schemas)_test$"
  "^runtime/(kernels|backends)/ => ^system[.]exact_bits"
  "^runtime/include/ => ^(runtime|system|hosted|python)[.]"
  "^runtime/kernels/arm/ => --target aarch64"
  "^runtime/kernels/mcu/ => --target cortex-m55"
  "^converter/ => ^converter[.]|^cli[.]converter_(cli|messages|outputs|hostile)_test$"
  "^converter/(gguf|llama2c)/ => ^fuzz[.]@1@$"
  "^converter/(.*token|sentencepiece|[a-z_]*template|pre_|regex|.*automaton|text_|char_|code_) => ^fuzz[.](.*token|sentence|round_trip|chat_template)"
  "^converter/chat_template => ^cli[.]chat_template_(process_)?test$"
  "^converter/(calibration|lora)/ => ^cli[.]@1@_test$"
  "^converter/(json|safetensors|hugging_face|[a-z]*gptq) => ^fuzz[.](json|safetensors|gptq)$|^cli[.]second_reader_values_test$"
  "^platforms/hosted/(base|session|chat|eval|bench|prefixes|engine|cli|serve)/ => ^hosted[.]@1@[.]"
  "^platforms/hosted/ => ^cli[.]cria_run_test$"
  "^platforms/hosted/(base|session|prefixes)/ => ^hosted[.]|^cli[.](output_files|without_proc|prompt_cache)_test$"
  "^platforms/hosted/chat/ => ^cli[.](chat_template|server_api)_test$"
  "^platforms/hosted/(eval|bench)/ => ^cli[.]cria_data_test$"
  "^platforms/hosted/cli/ => ^cli[.](cria|prompt_cache|hostile_inputs)_"
  "^platforms/hosted/(prefixes|engine|serve)/ => ^cli[.]server|^fuzz[.](server|ollama)"
  "^platforms/hosted/serve/page/ => ^web[.]"
  "^(platforms/hosted/library|python|examples/python)/|^docs/python[.]md$ => ^python[.]"
  "^platforms/cortex_m/|^tests/firmware/|^toolchains/.*cortex => --target cortex-m33"
  "^examples/(minimal|two_conversations)/ => ^cli[.]example_@1@_test$"
  "^scripts/ => ^cli[.](test_script|script_arguments|compare_script|measurements_table|models_table|pictures)_test$"
  "^scripts/serve_load[.]py$ => ^cli[.]serve_load$"
  "^scripts/make_source_tree[.]sh$ => ^package[.]source_tree$"
  "^docs/measurements/|^(README|docs/performance)[.]md$ => ^cli[.]measurements_table_test$"
  "^docs/(server|models)[.]md$ => ^cli[.](server_docs|models_table)_test$"
  "^docs/images/.*[.]svg$ => ^cli[.]pictures_test$"
  "^docs/model_format[.]md$ => ^cli[.]second_reader_test$"
  "^docs/man/|^cmake/(Package|Install|package/) => ^package$"
  "^cmake/package/ => ^package[.](scripts|installed)$"
  "^models/ => ^system[.]|^cli[.]cria_run_test$"
  "^tests/unit/(quant|runtime/[a-z]+|converter)/ => ^@1@[.]"
  "^tests/unit/platforms/(hosted/[a-z]+)/ => ^@1@[.]"
  "^tests/system/([a-z0-9_]+_test)[.]cpp$ => ^system[.]@1@$"
  "^tests/system/.*[.]h$ => ^system[.](chat|token)"
  "^tests/cli/([a-z0-9_]+_test)[.]py$ => ^cli[.]@1@$"
  "^tests/cli/(cria_cli|checkpoints)[.]py$ => ^cli[.](cria_|converter_|server_api)"
  "^tests/cli/cria_server[.]py$ => ^cli[.]server_"
  "^tests/cli/hostile_folder[.]py$ => ^cli[.]converter_"
  "^tests/cli/(random_schemas|seeds)[.]py$ => ^cli[.](json_schemas|second_reader|server_http|text_probe)_test$"
  "^tests/(web|package|bench)/ => ^@1@([.]|$)"
  "^tests/cross/|^toolchains/aarch64 => --target aarch64"
  "^toolchains/armv7 => --target armv7"
  "^tests/tools/ => ^cli[.](test_script|second_reader|text_probe|json_schemas|hostile_inputs|hostile_tokenizers)_test$|^data[.]"
  "^tests/fuzz/ => ^fuzz[.]"
  "^tests/data/corpus/([a-z0-9_]+) => ^fuzz[.]@1@$"
  "^tests/data/golden/ => ^(system|data)[.]|^cli[.](server_golden|second_reader_values)_test$"
  "^tests/data/call_forms[.]json => ^runtime[.]calls[.]|^quant[.]|^fuzz[.]calls$"
  "^tests/data/(chat_templates|[a-z_]+[.]jsonl) => ^converter[.]|^cli[.]chat_template_test$"
  "^tests/support/ => ^(quant|runtime|converter|hosted|system|fuzz)[.]"
  "(^|/)(CMakeLists[.]txt|CMakePresets[.]json|[^/]*[.]cmake)$|^cmake/[^/]*$ => ^(quant|runtime)[.]"
  "[.]h$|^tests/house/ => ^house_long[.]"
  "^ => ^house[.]")
