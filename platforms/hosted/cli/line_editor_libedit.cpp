// With CRIA_WITH_LIBEDIT. The library edits and draws; characters, signals and the history's file
// are cria's own.
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/base/text_width.h"
#include "platforms/hosted/cli/line_editor.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
namespace {

// What handlers of signals need: the terminal's modes as they were, and what came.
termios modes_before = {};
struct sigaction actions_before[NSIG] = {};
volatile sig_atomic_t was_resized = 0;
volatile sig_atomic_t was_continued = 0;

// A signal that ends the program finds the terminal as it was.
void on_end(int number) {
  ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  ::sigaction(number, &actions_before[number], nullptr);
  ::raise(number);
}

void on_stop(int) {
  const int error_number = errno;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &modes_before);
  ::raise(SIGSTOP);
  errno = error_number;
}

void on_resize(int) { was_resized = 1; }

void on_continue(int) { was_continued = 1; }

struct Handled {
  int number;
  void (*handler)(int);
};
constexpr Handled kHandled[] = {{SIGTERM, on_end},  {SIGHUP, on_end},      {SIGQUIT, on_end},
                                {SIGTSTP, on_stop}, {SIGWINCH, on_resize}, {SIGCONT, on_continue}};

// While a line is read.
class SignalHandlers {
 public:
  SignalHandlers() {
    ::tcgetattr(STDIN_FILENO, &modes_before);
    for (const Handled& each : kHandled) {
      struct sigaction action = {};
      action.sa_handler = each.handler;
      ::sigemptyset(&action.sa_mask);
      struct sigaction* const before = &actions_before[each.number];
      ::sigaction(each.number, nullptr, before);
      if (before->sa_handler != SIG_IGN) ::sigaction(each.number, &action, nullptr);
    }
  }
  ~SignalHandlers() {
    for (const Handled& each : kHandled) {
      ::sigaction(each.number, &actions_before[each.number], nullptr);
    }
  }
  SignalHandlers(const SignalHandlers&) = delete;
  SignalHandlers& operator=(const SignalHandlers&) = delete;
};

std::wstring wide(std::string_view text) {
  std::wstring result;
  for (size_t at = 0; at < text.size();) {
    const uint32_t code = next_character(text, &at);
    result += static_cast<wchar_t>(code != 0 ? code : kReplacement);
  }
  return result;
}

std::string narrow(std::wstring_view text) {
  std::string result;
  for (const wchar_t code : text) append_character(&result, static_cast<uint32_t>(code));
  return result;
}

constexpr wchar_t kEditKey = 0x1f;  // Ctrl-_, which types the text of edit

class LibeditEditor final : public LineEditor {
 public:
  LibeditEditor();
  ~LibeditEditor() override;
  LibeditEditor(const LibeditEditor&) = delete;
  LibeditEditor& operator=(const LibeditEditor&) = delete;

  LineResult next(const std::string& prompt, const IdleWork& work, std::string* line) override;
  void edit(const std::string& text) override { prefill_ = wide(text); }
  void remember(const std::string& line) override;

 private:
  enum class Wait { kReady, kInterrupted };

  static LibeditEditor* of(EditLine* editor);
  static wchar_t* prompt(EditLine* editor) { return of(editor)->prompt_.data(); }
  static int read_character(EditLine* editor, wchar_t* character);
  static unsigned char type_prefill(EditLine* editor, int);
  Wait wait();
  int next_byte();

  FILE* out_;
  FILE* nowhere_;
  EditLine* editor_;
  HistoryW* history_;
  std::wstring prompt_;
  std::wstring prefill_;
  const IdleWork* work_ = nullptr;  // of the line at hand
  bool prefill_is_due_ = false;
  int held_byte_ = -1;  // read, but of no character yet
  bool had_text_ = false;
};

LibeditEditor::LibeditEditor()
    : out_(::fdopen(::dup(STDERR_FILENO), "w")),
      nowhere_(std::fopen("/dev/null", "w")),
      editor_(el_init("cria", stdin, out_ != nullptr ? out_ : stderr,
                      nowhere_ != nullptr ? nowhere_ : stderr)),
      history_(history_winit()) {
  constexpr int kMostLines = 1000;
  HistEventW event = {};
  history_w(history_, &event, H_SETSIZE, kMostLines);
  history_w(history_, &event, H_SETUNIQUE, 1);
  el_wset(editor_, EL_CLIENTDATA, this);
  el_wset(editor_, EL_EDITOR, L"emacs");
  el_wset(editor_, EL_SIGNAL, 0);
  el_wset(editor_, EL_HIST, history_w, history_);
  el_wset(editor_, EL_GETCFN, &read_character);
  el_wset(editor_, EL_PROMPT_ESC, &prompt, L'\1');
  el_wset(editor_, EL_ADDFN, L"cria-edit", L"Types the text that is to be changed", &type_prefill);
  el_wset(editor_, EL_BIND, L"^_", L"cria-edit", nullptr);
}

LibeditEditor::~LibeditEditor() {
  el_end(editor_);
  history_wend(history_);
  if (out_ != nullptr) std::fclose(out_);
  if (nowhere_ != nullptr) std::fclose(nowhere_);
}

LibeditEditor* LibeditEditor::of(EditLine* editor) {
  void* self = nullptr;
  el_wget(editor, EL_CLIENTDATA, &self);
  return static_cast<LibeditEditor*>(self);
}

unsigned char LibeditEditor::type_prefill(EditLine* editor, int) {
  LibeditEditor* const self = of(editor);
  if (!self->prefill_.empty()) el_winsertstr(editor, self->prefill_.c_str());
  self->prefill_.clear();
  return CC_REFRESH;
}

// Signals are let in only inside ppoll, so that none comes between the look at a flag and the wait.
LibeditEditor::Wait LibeditEditor::wait() {
  // Echo and cursor are up to date: the library draws before it asks for a key.
  if (work_ != nullptr) work_until_input(STDIN_FILENO, *work_);
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  for (const int number : {SIGINT, SIGWINCH, SIGCONT}) ::sigaddset(&blocked, number);
  termios modes = {};
  ::tcgetattr(STDIN_FILENO, &modes);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  pollfd waiting = {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  for (;;) {
    if (was_continued != 0) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &modes);
    if (was_resized != 0) el_resize(editor_);
    if (was_resized != 0 || was_continued != 0) el_wset(editor_, EL_REFRESH);
    was_resized = 0;
    was_continued = 0;
    if (interrupted() || ::ppoll(&waiting, 1, nullptr, &before) >= 0 || errno != EINTR) break;
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return interrupted() ? Wait::kInterrupted : Wait::kReady;
}

// -1 at the end, on an error and on Ctrl-C, which sets errno to EINTR.
int LibeditEditor::next_byte() {
  // What a Ctrl-D becomes that was typed during an answer, when the terminal edited lines itself.
  constexpr uint8_t kTypedAheadEnd = 0;
  constexpr uint8_t kEnd = 4;
  if (held_byte_ >= 0) {
    const int byte = held_byte_;
    held_byte_ = -1;
    return byte;
  }
  for (;;) {
    if (wait() == Wait::kInterrupted) {
      errno = EINTR;
      return -1;
    }
    uint8_t byte = 0;
    const ssize_t got = ::read(STDIN_FILENO, &byte, 1);
    if (got == 1) return byte != kTypedAheadEnd ? byte : kEnd;
    if (got == 0) errno = 0;
    if (got == 0 || errno != EINTR) return -1;
  }
}

int LibeditEditor::read_character(EditLine* editor, wchar_t* character) {
  LibeditEditor* const self = of(editor);
  if (self->prefill_is_due_) {
    self->prefill_is_due_ = false;
    *character = kEditKey;
    return 1;
  }
  std::string bytes;
  do {
    const int byte = self->next_byte();
    if (byte < 0 && !bytes.empty()) break;
    if (byte < 0) {
      const LineInfoW* const line = el_wline(editor);
      self->had_text_ = line->lastchar > line->buffer;
      return errno == 0 ? 0 : -1;
    }
    // What cannot go on a character begins the next one.
    if (!bytes.empty() && (byte & 0xc0) != 0x80) {
      self->held_byte_ = byte;
      break;
    }
    bytes += static_cast<char>(byte);
  } while (bytes.size() < (static_cast<uint8_t>(bytes[0]) < 0xc2   ? 1U
                           : static_cast<uint8_t>(bytes[0]) < 0xe0 ? 2U
                           : static_cast<uint8_t>(bytes[0]) < 0xf0 ? 3U
                                                                   : 4U));
  size_t at = 0;
  *character = static_cast<wchar_t>(next_character(bytes, &at));
  return 1;
}

LineResult LibeditEditor::next(const std::string& prompt, const IdleWork& work, std::string* line) {
  const SignalHandlers handlers;
  // The library drops an escape that nothing follows, so the space is not in it.
  prompt_ = L"\1" + wide(coloured(Colour::kPrompt, "\1" + prompt + "\1")) + L"\1 ";
  prefill_is_due_ = !prefill_.empty();
  work_ = &work;
  int n = 0;
  errno = 0;
  // Before the prompt shows, or what is typed at once would appear twice.
  el_wset(editor_, EL_PREP_TERM, 1);
  const wchar_t* const text = el_wgets(editor_, &n);
  work_ = nullptr;
  if (text == nullptr || n <= 0) {
    if (!interrupted()) return LineResult::kEnd;
    std::fputs(had_text_ ? "^C\n" : "^C", out_ != nullptr ? out_ : stderr);
    std::fflush(out_ != nullptr ? out_ : stderr);
    return had_text_ ? LineResult::kCleared : LineResult::kInterrupted;
  }
  *line = narrow({text, static_cast<size_t>(n)});
  drop_last_newline(line);
  return LineResult::kLine;
}

void LibeditEditor::remember(const std::string& line) {
  HistEventW event = {};
  history_w(history_, &event, H_ENTER, wide(line).c_str());
}

bool has_utf8_locale() {
  const auto is_utf8 = [] { return std::strcmp(::nl_langinfo(CODESET), "UTF-8") == 0; };
  if (std::setlocale(LC_CTYPE, "") != nullptr && is_utf8()) return true;
  return std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr && is_utf8();
}

}  // namespace

const char* line_editor_name() { return "libedit"; }

std::unique_ptr<LineEditor> make_line_editor() {
  if (!is_terminal(STDIN_FILENO) || !is_terminal(STDOUT_FILENO) || !stderr_has_escapes() ||
      !has_utf8_locale()) {
    return nullptr;
  }
  return std::make_unique<LibeditEditor>();
}

}  // namespace cria::hosted
