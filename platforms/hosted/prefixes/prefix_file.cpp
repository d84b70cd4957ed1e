#include "platforms/hosted/prefixes/prefix_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they are");

constexpr std::string_view kMagicOfAll = "criaprm";  // of every version
constexpr std::string_view kMagic = "criaprm3";
constexpr size_t kTermsBytes = 112;
constexpr size_t kPartBytes = size_t{1} << 20;

bool is_exact(const ModelSession& model) {
  return std::string_view(cria_backend_name(model.model())) == "exact";
}

}  // namespace

std::string PrefixHead::bytes() const {
  std::string result = terms;
  result.append(reinterpret_cast<const char*>(&n_state_bytes), sizeof n_state_bytes);
  result.append(reinterpret_cast<const char*>(&n_tokens), sizeof n_tokens);
  return result;
}

std::string state_terms(const ModelSession& model) {
  std::string terms =
      std::string(kMagic) +
      text_of("cria %s %s model %016llx kv %s", cria_version(), cria_backend_name(model.model()),
              static_cast<unsigned long long>(cria_fingerprint(model.model())),
              kv_format_name(model.config().kv_format));
  // With exact neither kernels nor chunks change a bit.
  if (!is_exact(model)) {
    terms += text_of(" isa %s chunk %zu", cria_isa_name(model.model()), reuse_step(model));
  }
  terms.resize(kTermsBytes);
  return terms;
}

bool begins_prefix_file(std::string_view start) { return start.starts_with(kMagicOfAll); }

std::optional<PrefixHead> read_prefix_head(std::string_view start) {
  constexpr uint64_t kMostTokens = uint64_t{1} << 24;  // positions of the longest context
  constexpr uint64_t kMostBytes = uint64_t{1} << 60;   // so that sums have no overflow
  if (start.size() < kPrefixHeadBytes || !start.starts_with(kMagic)) return std::nullopt;
  PrefixHead head;
  head.terms = start.substr(0, kTermsBytes);
  std::memcpy(&head.n_state_bytes, start.data() + kTermsBytes, sizeof head.n_state_bytes);
  std::memcpy(&head.n_tokens, start.data() + kTermsBytes + sizeof head.n_state_bytes,
              sizeof head.n_tokens);
  const bool is_possible = head.n_tokens != 0 && head.n_tokens <= kMostTokens &&
                           head.n_state_bytes != 0 && head.n_state_bytes <= kMostBytes;
  return is_possible ? std::optional(head) : std::nullopt;
}

size_t reuse_step(const ModelSession& model) {
  constexpr size_t kUsualChunk = 64;  // the runtime's default
  if (is_exact(model)) return 1;
  const size_t chosen = model.config().prefill_chunk;
  return chosen != 0 ? chosen : kUsualChunk;
}

bool write_prefix_file(const std::string& path, const std::string& terms,
                       std::span<const uint32_t> tokens, std::span<const uint8_t> state,
                       const std::function<bool()>& goes_on) {
  const std::string head = PrefixHead{terms, state.size(), tokens.size()}.bytes();
  OutputFile file(path, InPlace::kNever, Readers::kOwner);
  file.append(head.data(), head.size());
  file.append(tokens.data(), tokens.size_bytes());
  uint64_t offset = head.size() + tokens.size_bytes();
  for (std::span rest = state; !rest.empty();) {
    if (!goes_on()) return false;
    const std::span part = rest.first(std::min(rest.size(), kPartBytes));
    file.append(part.data(), part.size());
    file.start_flush(offset, part.size());
    offset += part.size();
    rest = rest.subspan(part.size());
  }
  file.commit();
  return true;
}

cria_status load_prefix(cria_session* session, std::span<const uint32_t> tokens,
                        std::span<const uint8_t> state) {
  const cria_status status = cria_state_load(session, state.data(), state.size());
  if (status != CRIA_OK) return status;
  const std::span held(cria_tokens(session), cria_position(session));
  if (std::equal(held.begin(), held.end(), tokens.begin(), tokens.end())) return CRIA_OK;
  cria_reset(session, 0);
  return CRIA_BAD_STATE;
}

}  // namespace cria::hosted
