#include "platforms/hosted/base/standard_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace cria::hosted {
namespace {

// What is wrong after the descriptors of mask were closed and occupied; 0: nothing.
int problem_with(unsigned mask) {
  for (int descriptor = 0; descriptor <= STDERR_FILENO; ++descriptor) {
    if ((mask >> descriptor & 1) != 0) ::close(descriptor);
  }
  occupy_standard_descriptors();
  if (::open("/dev/null", O_RDWR) <= STDERR_FILENO) return 1;
  char byte = 'x';
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    if ((mask >> descriptor & 1) == 0) continue;
    if (::write(descriptor, &byte, 1) >= 0 || errno != EBADF) return 2;
  }
  const bool input_was_closed = (mask & 1) != 0;
  if (input_was_closed && (::read(STDIN_FILENO, &byte, 1) >= 0 || errno != EBADF)) return 3;
  return 0;
}

TEST(StandardDescriptors, NoFileGetsTheNumberOfAClosedOne) {
  constexpr unsigned kAll = 0b111;
  for (unsigned mask = 0; mask <= kAll; ++mask) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(problem_with(mask));
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "closed " << mask;
  }
}

}  // namespace
}  // namespace cria::hosted
