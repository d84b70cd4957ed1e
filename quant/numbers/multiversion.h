// Compiles a function once for each level of x86-64 and lets the loader choose; elsewhere nothing.
//
// For the converter's loops only. They state the order of their sums, so every version gives the
// same bits; runtime/kernels has its own table of functions, because its caller chooses there.
#pragma once

// Sanitized builds have one version: three of a file take a minute to compile, and the thread
// sanitizer's cannot be loaded.
#if defined(__x86_64__) && defined(__ELF__) && defined(__GNUC__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define CRIA_MULTIVERSION [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define CRIA_MULTIVERSION
#endif
