#include "tests/fuzz/hostile_input.h"

#include <iterator>

#include "runtime/base/features.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/hooks.h"

namespace cria::fuzz {
namespace {

constexpr size_t kMostEdits = 64;

// One of the values by some bits of a setting.
template <size_t N>
uint32_t pick(const uint32_t (&values)[N], uint8_t setting) {
  return values[setting % N];
}

cria_config config_from(const uint8_t (&settings)[6]) {
  cria_config config = {};
  config.n_threads = 1 + settings[0] % 4;
  if (config.n_threads > 1) {
    constexpr uint32_t kThreadedCalls = 24;  // loading, and about a layer
    const uint8_t order = settings[0] / 4 % 8;
    set_hook(order == 7 ? TaskOrder::kThreads : static_cast<TaskOrder>(order % 2), kThreadedCalls,
             &config);
  }
  constexpr uint32_t kContexts[] = {16, 0, 1, 7, 64, 65, 130, 1 << 20};
  config.context = pick(kContexts, settings[1]);
  constexpr uint32_t kChunks[] = {0, 1, 5, 64};
  config.prefill_chunk = pick(kChunks, settings[1] / 8);
  constexpr uint32_t kTexts[] = {0, 1, 100, 5000};
  config.max_text_bytes = pick(kTexts, settings[1] / 32);
  constexpr uint32_t kKvFormats[] = {CRIA_KV_INT8, CRIA_KV_F32,  CRIA_KV_INT8,
                                     CRIA_KV_F32,  CRIA_KV_K8V4, CRIA_KV_F32};
  config.kv_format = static_cast<cria_kv_format>(pick(kKvFormats, settings[2]));
  constexpr uint32_t kEntries[] = {0, 1, 2, 64};
  config.max_entries = pick(kEntries, settings[0] / 32);
  config.backend =
      kHasXnnpack && settings[2] / 2 % 4 == 0 ? CRIA_BACKEND_XNNPACK : CRIA_BACKEND_EXACT;
  config.skip_checksums = settings[2] / 8 % 8 == 0 ? 1 : 0;
  config.text_only = settings[2] / 64 == 3 ? 1 : 0;
  return config;
}

const Bytes& model_of(uint8_t base) {
  constexpr uint8_t kFirstOfKinds = 0xe0;
  const std::vector<Bytes>& models = base < kFirstOfKinds ? base_models() : models_of_kinds();
  return models[base % models.size()];
}

}  // namespace

HostileInput read_hostile_input(const uint8_t* data, size_t size) {
  HostileInput input = {};
  ByteFeed feed(data, size);
  ModelDraft draft(model_of(feed.byte()));
  constexpr test::Access kAccesses[] = {test::Access::kMap, test::Access::kRead,
                                        test::Access::kBoth};
  input.access = kAccesses[feed.byte() % std::size(kAccesses)];
  for (uint8_t& setting : input.settings) setting = feed.byte();
  for (size_t i = 0; i < kMostEdits && !feed.is_empty(); ++i) draft.apply(take_edit(&feed));
  input.file = draft.assemble();
  input.source_bytes = draft.source_bytes(input.file.size());
  input.config = config_from(input.settings);
  input.config.source_is_mapped = input.access != test::Access::kRead ? 1 : 0;
  input.text.assign(draft.text().begin(), draft.text().end());
  return input;
}

}  // namespace cria::fuzz
