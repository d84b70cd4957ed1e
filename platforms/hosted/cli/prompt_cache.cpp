#include "platforms/hosted/cli/prompt_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string_view>
#include <vector>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/input_text.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kMagic = "criaprm1";
constexpr size_t kHeaderBytes = 64;

// What a prompt's bits depend on besides the model and the KV format, which the state knows.
std::string header_of(const ModelSession& model) {
  const bool is_exact = std::string_view(cria_backend_name(model.model())) == "exact";
  std::string header =
      std::string(kMagic) + text_of("cria %s %s", cria_version(), cria_backend_name(model.model()));
  // Of exact neither kernels nor chunks change a bit.
  if (!is_exact) {
    header += text_of(" %s %u", cria_isa_name(model.model()), model.config().prefill_chunk);
  }
  header.resize(kHeaderBytes);
  return header;
}

void warn(const std::string& text) { print_notice("cria: warning: " + text); }

}  // namespace

PromptCache::PromptCache(const ModelSession& model, const std::string& path)
    : model_(model), path_(path) {
  if (path_ == "-") {
    throw ProgramError(ExitCode::kUsage, "--prompt-cache takes a file, which - is not");
  }
  if (path_.empty() || ::access(path_.c_str(), F_OK) != 0) return;
  model.check_output(path_);
  const std::string front = read_regular_start(path_, kHeaderBytes, "give another file name");
  if (front.empty()) return;  // made by somebody who wanted the name
  if (!std::string_view(front).starts_with(kMagic)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path_ + ": is no prompt cache; give another file name");
  }
  if (front != header_of(model)) {
    warn(path_ + ": of another backend or version of cria, or damaged; written anew");
    return;
  }
  try {
    const std::string all = read_regular_file(path_, kHeaderBytes + model.plan().session.total, "");
    saved_ = all.substr(std::min(all.size(), kHeaderBytes));
    if (saved_.empty()) warn(path_ + ": ends behind its header; written anew");
  } catch (const ProgramError& error) {
    warn(std::string(error.what()) + "; written anew");
  }
}

// How many positions may stay so that what is read behind them is read as it would be without a
// cache: those that both have, but one token has to be read for its logits. Only exact has the same
// bits wherever a chunk begins.
size_t PromptCache::reusable(std::span<const uint32_t> tokens) const {
  const uint32_t n_held = cria_position(model_.session());
  const uint32_t* const held = cria_tokens(model_.session());
  const size_t most = std::min<size_t>(n_held, tokens.size());
  const size_t n_common =
      static_cast<size_t>(std::mismatch(held, held + most, tokens.begin()).first - held);
  if (n_common == tokens.size() && n_common == n_held) {
    return cria_logits(model_.session()) != nullptr ? n_common : 0;
  }
  constexpr size_t kUsualChunk = 64;
  const size_t chosen = model_.config().prefill_chunk;
  const size_t chunk = std::string_view(cria_backend_name(model_.model())) == "exact" ? 1
                       : chosen != 0                                                  ? chosen
                                                                                      : kUsualChunk;
  return std::min(n_common, tokens.size() - 1) / chunk * chunk;
}

size_t PromptCache::restore(std::span<const uint32_t> tokens) {
  if (saved_.empty()) return 0;
  const cria_status status = cria_state_load(model_.session(), saved_.data(), saved_.size());
  saved_ = {};
  if (status != CRIA_OK) {
    warn(path_ + (status == CRIA_CONTEXT_FULL
                      ? ": holds more tokens than this context; written anew"
                      : ": of another model file or --kv, or damaged; written anew"));
    return 0;
  }
  const size_t n_kept = reusable(tokens);
  is_current_ = n_kept == tokens.size();
  if (is_current_) return n_kept;
  if (cria_reset(model_.session(), static_cast<uint32_t>(n_kept)) == CRIA_OK) return n_kept;
  // A sliding window has gone on: what precedes the place is forgotten.
  model_.check(cria_reset(model_.session(), 0));
  return 0;
}

void PromptCache::keep() const {
  if (path_.empty() || is_current_) return;
  try {
    const std::string header = header_of(model_);
    std::vector<uint8_t> state(cria_state_size(model_.session()));
    model_.check(cria_state_save(model_.session(), state.data(), state.size()));
    OutputFile file(path_, InPlace::kNever);
    file.append(header.data(), header.size());
    file.append(state.data(), state.size());
    file.commit();
  } catch (const OutputError& error) {
    warn(error.what());
  } catch (const std::bad_alloc&) {
    warn(path_ + ": no memory for it; not written");
  }
}

}  // namespace cria::hosted
