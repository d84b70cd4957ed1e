// A tokenizer imported from a folder and opened, for tests that run text through it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "converter/tokenizer_import.h"
#include "quant/model/memory_plan.h"
#include "runtime/text/tokenizer.h"
#include "tests/support/folders.h"

namespace cria::test {

// $CRIA_SHARED/reference; empty when it is not there.
inline std::filesystem::path references() { return reference_folder().value_or(""); }

#define CRIA_SKIP_WITHOUT_REFERENCE()                                      \
  if (::cria::test::references().empty()) {                                \
    GTEST_SKIP() << "CRIA_SHARED is not set or has no folder 'reference'"; \
  }

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

using Tokens = std::vector<uint32_t>;

// A folder that shows some files of others, so that an import cannot take their neighbours.
class LinkedFolder {
 public:
  explicit LinkedFolder(const std::vector<std::filesystem::path>& files) {
    std::string name = (std::filesystem::temp_directory_path() / "cria-tokenizer-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path_ = name;
    for (const auto& file : files) {
      std::filesystem::create_symlink(std::filesystem::absolute(file), path_ / file.filename());
    }
  }
  ~LinkedFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  LinkedFolder(const LinkedFolder&) = delete;
  LinkedFolder& operator=(const LinkedFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::vector<uint8_t> workspace_for(size_t n_bytes) {
  // A symbol a byte, three bytes for an invalid one (U+FFFD), one for a prepended space.
  return std::vector<uint8_t>((3 * n_bytes + 1) * kEncodeBytesPerSymbol);
}

class TestTokenizer {
 public:
  explicit TestTokenizer(converter::ImportedTokenizer imported, uint32_t vocab_size)
      : imported_(std::move(imported)) {
    const Status status = tokenizer_open(imported_.tokenizer_section, vocab_size, &tokenizer_);
    if (status != Status::kOk) {
      throw std::runtime_error("tokenizer_open: " + std::to_string(static_cast<int>(status)));
    }
    if (imported_.chat_section.empty()) return;
    if (chat_template_open(imported_.chat_section, &chat_) != Status::kOk) {
      throw std::runtime_error("chat_template_open fails");
    }
  }
  TestTokenizer(const std::filesystem::path& folder, uint32_t vocab_size)
      : TestTokenizer(converter::import_tokenizer(folder, vocab_size), vocab_size) {}

  TestTokenizer(const TestTokenizer&) = delete;
  TestTokenizer& operator=(const TestTokenizer&) = delete;

  [[nodiscard]] const Tokenizer& get() const { return tokenizer_; }
  [[nodiscard]] const ChatTemplate& chat() const { return chat_; }
  [[nodiscard]] const converter::ImportedTokenizer& imported() const { return imported_; }

  [[nodiscard]] Tokens encode(std::string_view text, const EncodeOptions& options) const {
    std::vector<uint8_t> workspace = workspace_for(text.size());
    Tokens tokens(3 * text.size() + 4);
    size_t n_tokens = 0;
    const Status status = tokenizer_encode(tokenizer_, text, options, workspace, tokens, &n_tokens);
    if (status != Status::kOk) {
      throw std::runtime_error("tokenizer_encode: " + std::to_string(static_cast<int>(status)));
    }
    tokens.resize(n_tokens);
    return tokens;
  }

  [[nodiscard]] std::string decode(const Tokens& tokens, bool show_special) const {
    DecodeState state = {};
    std::vector<char> out(tokenizer_.header.longest_token * size_t{3} + 8);
    std::string text;
    for (const uint32_t token : tokens) {
      text.append(out.data(), tokenizer_decode(tokenizer_, token, show_special, &state, out));
    }
    text.append(out.data(), tokenizer_decode_end(&state, out));
    return text;
  }

  [[nodiscard]] Tokens encode_chat(const std::vector<ChatMessage>& messages, size_t first,
                                   ChatEnd end) const {
    size_t n_bytes = 4096;
    for (const ChatMessage& message : messages) n_bytes += message.content.size();
    std::vector<uint8_t> workspace = workspace_for(2 * n_bytes);
    Tokens tokens(4 * n_bytes);
    size_t n_tokens = 0;
    const Status status =
        chat_encode(tokenizer_, chat_, {messages, end, {}}, first, workspace, tokens, &n_tokens);
    if (status != Status::kOk) {
      throw std::runtime_error("chat_encode: " + std::to_string(static_cast<int>(status)));
    }
    tokens.resize(n_tokens);
    return tokens;
  }

 private:
  converter::ImportedTokenizer imported_;
  Tokenizer tokenizer_ = {};
  ChatTemplate chat_ = {};
};

inline ChatMessage message(std::string_view role, std::string_view content) {
  const ChatRole value = role == "system" ? ChatRole::kSystem
                         : role == "user" ? ChatRole::kUser
                                          : ChatRole::kAssistant;
  return {value, content};
}

}  // namespace cria::test
