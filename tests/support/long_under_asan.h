// Cases that the address sanitizer's build leaves out (cmake/Lanes.cmake: which programs run).
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CRIA_TEST_HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(CRIA_TEST_HAS_ASAN)
#define CRIA_TEST_HAS_ASAN 1
#endif

// The first line of a case that takes long under the address sanitizer and touches no memory there
// that other cases do not: it is skipped in such a build.
#ifdef CRIA_TEST_HAS_ASAN
#define CRIA_SKIP_UNDER_ASAN() \
  GTEST_SKIP() << "long, and other cases show the same under sanitizers"
#else
#define CRIA_SKIP_UNDER_ASAN() static_cast<void>(0)
#endif
