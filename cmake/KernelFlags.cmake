# One instruction set a source file: the last words of a kernel's file name say which flags it gets and on which
# processors it is compiled at all. Files without such an ending (scalar, portable code) get no flags.
#
# GCC 12 takes the undefined registers in its own AVX-512 header for a mistake (its bug 105593).
set(CRIA_AVX512_WARNINGS)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  set(CRIA_AVX512_WARNINGS " -Wno-uninitialized -Wno-maybe-uninitialized")
endif()

# GCC schedules Armv7 as if its 16 vector registers were more, and moves sums to memory; on AArch64 it does less of that
# when it weighs pressure by its first algorithm (docs/performance_arm.md).
#
# Firmware is compiled for one core: its toolchain file's flags say what the core has, CMAKE_SYSTEM_PROCESSOR its name
# (cortex-m33 with the DSP extension, cortex-m55-helium with vectors of floats; an M33 without DSP is any other name).
# Helium's kernels leave nothing to those of dsp, which such a build would only store. -O2 without scheduling is where
# bytes stop paying (docs/performance_arm.md has the others).
#
# ending | processors (regular expression) | flags
set(CRIA_KERNEL_FLAGS
  "sse4_1|x86_64|-msse4.1"
  "avx2|x86_64|-mavx2 -mf16c"
  "avxvnni|x86_64|-mavx2 -mf16c -mavxvnni"
  "avx512vnni|x86_64|-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni${CRIA_AVX512_WARNINGS}"
  "i8mm|aarch64|-march=armv8.2-a+dotprod+i8mm -mtune=cortex-a76"
  "dotprod|aarch64|-march=armv8.2-a+dotprod -mtune=cortex-a76"
  "neon|aarch64|$<$<CXX_COMPILER_ID:GNU>:--param=sched-pressure-algorithm=1>"
  "dsp|cortex-m[47]$|-O2 -fno-schedule-insns"
  "dsp|cortex-m[358][235]p?$|-O2 -fno-schedule-insns"
  "helium|cortex-m[58][25]-helium$|-O2 -fno-schedule-insns"
  "neon|armv7|-mfpu=neon-vfpv4 -mfp16-format=ieee $<$<CXX_COMPILER_ID:GNU>:-fno-schedule-insns>"
)

# cria_select_kernels(<out variable> <sources...>): keeps the sources of this processor and sets their flags. Variable
# <out>_endings has the endings that were kept, a blank between two.
function(cria_select_kernels out)
  set(kept)
  set(endings)
  foreach(source IN LISTS ARGN)
    get_filename_component(stem "${source}" NAME_WE)
    set(named FALSE)
    set(used FALSE)
    foreach(row IN LISTS CRIA_KERNEL_FLAGS)
      string(REPLACE "|" ";" row "${row}")
      list(GET row 0 ending)
      list(GET row 1 processors)
      list(GET row 2 flags)
      if(NOT used AND stem MATCHES "(^|_)${ending}$")
        set(named TRUE)
        if(CMAKE_SYSTEM_PROCESSOR MATCHES "^${processors}")
          set(used TRUE)
          list(APPEND endings "${ending}")
          separate_arguments(flags)
          # The sums of a block stay in registers only when its loops are unrolled, which -O2 does not do.
          # A row's own level comes after and wins.
          list(PREPEND flags "$<$<NOT:$<CONFIG:Debug>>:-O3>")
          set_source_files_properties("${source}" PROPERTIES COMPILE_OPTIONS "${flags}")
        endif()
      endif()
    endforeach()
    if(used OR NOT named)
      list(APPEND kept "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES endings)
  list(JOIN endings " " endings)
  set(${out} "${kept}" PARENT_SCOPE)
  set(${out}_endings "${endings}" PARENT_SCOPE)
endfunction()
