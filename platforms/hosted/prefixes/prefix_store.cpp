#include "platforms/hosted/prefixes/prefix_store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <new>
#include <tuple>
#include <utility>

#include "platforms/hosted/base/file_kind.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/system_error.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kNameStart = "prefix-";
constexpr std::string_view kNameEnd = ".state";
constexpr size_t kHashDigits = 16;
constexpr int64_t kNsOfSecond = 1000000000;
constexpr size_t kMostFiles = size_t{1} << 16;
constexpr size_t kMostTokens = size_t{1} << 22;  // of all prefixes, which are kept in memory

// What stays open no longer than it is looked at.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return number_; }

 private:
  int number_;
};

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_state_name(std::string_view name) {
  return name.size() == kNameStart.size() + kHashDigits + kNameEnd.size() &&
         name.starts_with(kNameStart) && name.ends_with(kNameEnd) &&
         is_hex(name.substr(kNameStart.size(), kHashDigits));
}

// The same prefix of the same model has the same name in all programs: FNV-1a, of words.
std::string state_name(const std::string& terms, std::span<const uint32_t> tokens) {
  constexpr uint64_t kBasis = 0xcbf29ce484222325;
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = kBasis;
  const auto add = [&hash](const auto& values) {
    for (const auto value : values) hash = (hash ^ static_cast<uint32_t>(value)) * kPrime;
  };
  add(terms);
  add(tokens);
  return text_of("prefix-%016llx.state", static_cast<unsigned long long>(hash));
}

// What OutputFile leaves when its program is killed.
bool is_temporary_name(std::string_view name) {
  constexpr std::string_view kStart = "cria-";
  constexpr std::string_view kEnd = ".tmp";
  return name.size() == kStart.size() + kHashDigits + kEnd.size() && name.starts_with(kStart) &&
         name.ends_with(kEnd) && is_hex(name.substr(kStart.size(), kHashDigits));
}

bool read_whole(int descriptor, void* to, uint64_t n_bytes, uint64_t offset) {
  constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;
  auto* place = static_cast<uint8_t*>(to);
  while (n_bytes > 0) {
    const auto n_at_once = static_cast<size_t>(std::min(n_bytes, kMostAtOnce));
    const ssize_t n = ::pread(descriptor, place, n_at_once, static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    place += n;
    offset += static_cast<uint64_t>(n);
    n_bytes -= static_cast<uint64_t>(n);
  }
  return true;
}

int open_to_read(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

// Layers that attend to everything before a token can do with fewer tokens than were read.
bool can_cut(const cria_model_info& info) {
  const std::vector<cria_layer_kind> kinds = layer_kinds(info);
  return std::all_of(kinds.begin(), kinds.end(), [](const cria_layer_kind& kind) {
    return kind.window == 0 && (kind.mixer == CRIA_NO_MIXER || kind.mixer == CRIA_ATTENTION ||
                                kind.mixer == CRIA_LATENT_ATTENTION);
  });
}

}  // namespace

PrefixStore::PrefixStore(const ModelSession& model, std::string folder, uint64_t most_bytes,
                         std::function<void(const std::string&)> tell)
    : folder_(std::move(folder)),
      most_bytes_(most_bytes),
      tell_(std::move(tell)),
      terms_(state_terms(model)),
      step_(reuse_step(model)),
      is_cut_(can_cut(model.info())),
      n_context_(cria_context(model.session())),
      most_state_bytes_(model.plan().session.total) {
  open_folder();
  look_through();
}

void PrefixStore::open_folder() const {
  constexpr mode_t kMode = 0700;  // the texts of prompts can be read from states
  if (::mkdir(folder_.c_str(), kMode) != 0 && errno != EEXIST) {
    throw_system_error(errno, folder_, "cannot make this folder");
  }
  struct stat status = {};
  if (::stat(folder_.c_str(), &status) != 0) throw_system_error(errno, folder_, "cannot stat");
  if (!S_ISDIR(status.st_mode)) {
    throw ProgramError(ExitCode::kInvalidInput, folder_ + ": is " + file_kind(status.st_mode) +
                                                    "; give a folder for the states of prefixes");
  }
  if ((status.st_mode & S_IWOTH) != 0) {
    throw ProgramError(ExitCode::kInvalidInput,
                       folder_ +
                           ": everybody may write to this folder and change what is kept there; "
                           "give another folder, or chmod o-w");
  }
}

// Folder --------------------------------------------------------------------------------------

// Notes the files that came, went and changed since it was called last.
void PrefixStore::look_through() {
  constexpr int64_t kSecondsOfWriting = 3600;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), &::closedir);
  if (folder == nullptr) throw_system_error(errno, folder_, "cannot read this folder");
  std::map<std::string, File> before;
  {
    const std::lock_guard lock(mutex_);
    before = files_;
  }
  std::map<std::string, File> now;
  std::string left_alone;
  size_t n_left_alone = 0;
  size_t n_tokens = 0;
  while (const dirent* const entry = ::readdir(folder.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (now.size() == kMostFiles) break;
    struct stat status = {};
    if (::fstatat(::dirfd(folder.get()), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (is_temporary_name(name) && S_ISREG(status.st_mode)) {
      const bool is_old = status.st_mtime < std::time(nullptr) - kSecondsOfWriting;
      if (is_old) ::unlinkat(::dirfd(folder.get()), name.c_str(), 0);
      continue;
    }
    File file;
    file.inode = status.st_ino;
    file.n_bytes = static_cast<uint64_t>(status.st_size);
    file.used_ns = status.st_mtim.tv_sec * kNsOfSecond + status.st_mtim.tv_nsec;
    const auto found = before.find(name);
    std::string problem;
    if (!is_state_name(name)) {
      problem = "is not the state of a prefix";
    } else if (found != before.end() && found->second.inode == file.inode &&
               found->second.n_bytes == file.n_bytes) {
      file.is_state = found->second.is_state;
      file.prefix = found->second.prefix;
    } else {
      problem = look_at(name, &file);
    }
    if (file.prefix != nullptr) {
      n_tokens += file.prefix->tokens.size();
      if (n_tokens > kMostTokens) file.prefix = nullptr;
    }
    if (!problem.empty() && n_left_alone++ == 0) left_alone = path_of(name) + " " + problem;
    if (is_state_name(name)) now.emplace(name, std::move(file));
  }
  bool tells = false;
  {
    const std::lock_guard lock(mutex_);
    files_ = std::move(now);
    tells = n_left_alone > 0 && !std::exchange(has_told_, true);
  }
  if (!tells) return;
  const std::string more =
      n_left_alone == 1 ? "" : text_of(" (and %zu more like it)", n_left_alone - 1);
  tell_("prefix cache: " + left_alone + more + "; not used");
}

// Why a file is not used, or nothing.
std::string PrefixStore::look_at(const std::string& name, File* file) const {
  const Descriptor opened(open_to_read(path_of(name)));
  struct stat status = {};
  if (opened.get() < 0) {
    return errno == ELOOP ? "is a link" : "cannot be read: " + system_error_text(errno);
  }
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::string("is ") + file_kind(status.st_mode);
  }
  std::string start(kPrefixHeadBytes, '\0');
  if (!read_whole(opened.get(), start.data(), start.size(), 0))
    return "is not the state of a prefix";
  if (!begins_prefix_file(start)) return "is not the state of a prefix";
  file->is_state = true;
  const std::optional<PrefixHead> head = read_prefix_head(start);
  if (!head || head->file_bytes() != file->n_bytes) return "is a damaged state";
  if (head->terms != terms_ || head->n_tokens > n_context_) return {};
  if (head->n_state_bytes > most_state_bytes_) return "is a damaged state";
  auto prefix = std::make_shared<StoredPrefix>(StoredPrefix{name, *head, {}});
  prefix->tokens.resize(static_cast<size_t>(head->n_tokens));
  const bool is_read = read_whole(opened.get(), prefix->tokens.data(),
                                  head->n_tokens * sizeof(uint32_t), kPrefixHeadBytes);
  if (!is_read) return "cannot be read";
  file->prefix = std::move(prefix);
  return {};
}

// Removes states until so many bytes have room, first those that never will.
void PrefixStore::make_room(uint64_t n_bytes) {
  struct Oldest {
    bool has_room;
    int64_t used_ns;
    std::string name;
    uint64_t n_bytes;
  };
  std::vector<Oldest> oldest;
  uint64_t total = n_bytes;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, file] : files_) {
      if (!file.is_state) continue;
      oldest.push_back({file.n_bytes <= most_bytes_, file.used_ns, name, file.n_bytes});
      total += file.n_bytes;
    }
  }
  std::sort(oldest.begin(), oldest.end(), [](const Oldest& a, const Oldest& b) {
    return std::tie(a.has_room, a.used_ns) < std::tie(b.has_room, b.used_ns);
  });
  for (const Oldest& file : oldest) {
    if (total <= most_bytes_) return;
    if (::unlink(path_of(file.name).c_str()) != 0 && errno != ENOENT) continue;
    total -= file.n_bytes;
    const std::lock_guard lock(mutex_);
    files_.erase(file.name);
  }
}

// Prefixes --------------------------------------------------------------------------------------

PrefixStore::Match PrefixStore::find(std::span<const uint32_t> prompt) const {
  Match best = {nullptr, 0};
  if (prompt.empty()) return best;
  const std::lock_guard lock(mutex_);
  for (const auto& [name, file] : files_) {
    if (file.prefix == nullptr) continue;
    const std::vector<uint32_t>& tokens = file.prefix->tokens;
    const auto differs =
        std::mismatch(prompt.begin(), prompt.end() - 1, tokens.begin(), tokens.end());
    size_t n = static_cast<size_t>(differs.second - tokens.begin());
    n = is_cut_ ? n / step_ * step_ : n == tokens.size() ? n : 0;
    const bool is_shorter = best.prefix != nullptr && tokens.size() < best.prefix->tokens.size();
    if (n > best.n_usable || (n > 0 && n == best.n_usable && is_shorter)) {
      best = {file.prefix, static_cast<uint32_t>(n)};
    }
  }
  return best;
}

std::optional<StateBytes> PrefixStore::read(const StoredPrefix& prefix) {
  const auto read_state = [&]() -> std::optional<StateBytes> {
    const Descriptor opened(open_to_read(path_of(prefix.name)));
    struct stat status = {};
    if (opened.get() < 0 || ::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
        static_cast<uint64_t>(status.st_size) != prefix.head.file_bytes()) {
      return std::nullopt;
    }
    std::string start(kPrefixHeadBytes, '\0');
    StateBytes state(static_cast<size_t>(prefix.head.n_state_bytes));
    if (!read_whole(opened.get(), start.data(), start.size(), 0) ||
        read_prefix_head(start) != prefix.head ||
        !read_whole(opened.get(), state.bytes.get(), state.size, prefix.head.state_offset())) {
      return std::nullopt;
    }
    (void)::futimens(opened.get(), nullptr);  // of a folder that cannot be written none is marked
    return state;
  };
  std::optional<StateBytes> state = read_state();
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(prefix.name);
  if (found == files_.end() || found->second.prefix.get() != &prefix) return state;
  if (!state) found->second.prefix = nullptr;
  return state;
}

bool PrefixStore::put(std::span<const uint32_t> tokens, std::span<const uint8_t> state,
                      const std::function<bool()>& goes_on) {
  const PrefixHead head = {terms_, state.size(), tokens.size()};
  const std::string name = state_name(terms_, tokens);
  look_through();
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find(name);
    if (found != files_.end() && !found->second.is_state) {
      throw ProgramError(
          ExitCode::kInvalidInput,
          path_of(name) + ": has the name of a prefix's state, but is not one; move it");
    }
  }
  if (head.file_bytes() > most_bytes_) return false;
  make_room(head.file_bytes());
  if (!write_prefix_file(path_of(name), terms_, tokens, state, goes_on)) return false;
  look_through();
  return true;
}

void PrefixStore::remove(const StoredPrefix& prefix) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(prefix.name);
  if (found == files_.end() || found->second.prefix.get() != &prefix) return;
  try {
    ::unlink(path_of(prefix.name).c_str());
  } catch (const std::bad_alloc&) {  // it stays where it is
  }
  files_.erase(found);
}

PrefixStore::Counts PrefixStore::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = {};
  for (const auto& [name, file] : files_) {
    if (file.prefix != nullptr) ++counts.n_prefixes;
    if (file.is_state) counts.n_bytes += file.n_bytes;
  }
  return counts;
}

}  // namespace cria::hosted
