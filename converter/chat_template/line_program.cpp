#include "converter/chat_template/line_program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>

#include "converter/error.h"
#include "platforms/hosted/base/system_error.h"

namespace cria::converter {
namespace {

[[noreturn]] void fail(const char* what, int error) {
  throw ProgramError(ExitCode::kIo,
                     std::string("cannot ") + what + ": " + hosted::system_error_text(error));
}

// The program's standard input and output are one socket.
int start(const std::vector<std::string>& command, int socket, pid_t* process) {
  std::vector<char*> arguments;
  for (const std::string& argument : command) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  std::string locale = "LC_ALL=C.UTF-8";
  const std::array<char*, 2> environment = {locale.data(), nullptr};
  posix_spawn_file_actions_t actions;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  if (error == 0) {
    error = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (error == 0) {
    error =
        posix_spawn(process, arguments[0], &actions, nullptr, arguments.data(), environment.data());
  }
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace

LineProgram::LineProgram(const std::vector<std::string>& command, const AnswerLimits& limits)
    : limits_(limits) {
  std::array<int, 2> ends = {};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    fail("make a socket", errno);
  }
  const int error = start(command, ends[1], &process_);
  close(ends[1]);
  socket_ = ends[0];
  if (error == 0) return;
  close(socket_);
  fail("make a process", error);
}

LineProgram::~LineProgram() {
  close(socket_);
  kill(process_, SIGKILL);
  int status = 0;
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
  }
}

// Writes and reads what can be at once, so that neither side waits for the other.
bool LineProgram::exchange(std::string_view* lines, int milliseconds) {
  const short wanted = lines->empty() ? POLLIN : POLLIN | POLLOUT;
  struct pollfd waited = {socket_, wanted, 0};
  const int ready = poll(&waited, 1, milliseconds);
  if (ready < 0) return errno == EINTR;
  if ((waited.revents & POLLOUT) != 0) {
    const ssize_t n = send(socket_, lines->data(), lines->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    lines->remove_prefix(static_cast<size_t>(n));
  }
  if ((waited.revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
    std::array<char, 1 << 16> buffer = {};
    const ssize_t n = recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n < 0) return errno == EINTR || errno == EAGAIN;
    said_.append(buffer.data(), static_cast<size_t>(n));
    return n > 0;
  }
  return true;
}

std::optional<std::vector<std::string>> LineProgram::ask(std::string_view lines, size_t n_answers) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(limits_.seconds);
  std::vector<std::string> answers;
  while (answers.size() < n_answers) {
    const size_t n_seen = said_.size();
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || !exchange(&lines, static_cast<int>(left))) return std::nullopt;
    for (size_t end = said_.find('\n', n_seen); end != std::string::npos; end = said_.find('\n')) {
      answers.push_back(said_.substr(0, end));
      said_.erase(0, end + 1);
    }
    if (said_.size() > limits_.line_bytes) return std::nullopt;
  }
  return answers;
}

}  // namespace cria::converter
