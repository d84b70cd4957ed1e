// cria eval: perplexity of a text, and how far a model is from a reference. The protocol is in
// docs/command_line.md.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/progress_line.h"
#include "platforms/hosted/cli/commands.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/eval/distribution.h"
#include "platforms/hosted/eval/eval_windows.h"
#include "platforms/hosted/eval/logits_by_token.h"
#include "platforms/hosted/eval/running_mean.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {
namespace {

struct Totals {
  RunningMean nll;
  RunningMean reference_nll;
  RunningMean more_nll;  // than the reference's, token by token
  RunningMean kl;
  RunningMean same_top;  // 1 where both like the same token best, else 0
  std::vector<float> kl_by_token;
};

// A measure of logits that are infinite or no numbers is none, and could not be sorted.
double checked(double value, const ModelSession& model) {
  if (std::isfinite(value)) return value;
  throw ProgramError(ExitCode::kInvalidInput,
                     model.path() +
                         ": its logits are not all finite numbers, so that nothing can "
                         "be measured; convert the model again");
}

double score(std::span<const float> logits, uint32_t next, const ModelSession& model,
             RunningMean* nll) {
  const double value = -checked(log_probability(logits, next), model);
  nll->add(value);
  return value;
}

void compare(std::span<const float> logits, std::span<const float> reference,
             const ModelSession& model, Totals* totals) {
  const double kl = checked(kl_divergence(reference, logits), model);
  totals->kl.add(kl);
  totals->kl_by_token.push_back(static_cast<float>(kl));
  totals->same_top.add(likeliest(reference) == likeliest(logits) ? 1.0 : 0.0);
}

// One window on both models. The reference's logits come a chunk at a time too, so they are kept
// for the whole window.
void run_window(const EvalWindow& window, const ModelSession& model, LogitsByToken* by_token,
                const ModelSession* reference, LogitsByToken* reference_by_token,
                std::vector<float>* kept, Totals* totals) {
  const size_t vocab_size = model.info().vocab_size;
  const std::span<const uint32_t> inputs(window.tokens.data(), window.tokens.size() - 1);
  if (reference != nullptr) {
    check_memory_for(uint64_t{inputs.size()} * vocab_size * sizeof(float),
                     "the reference's logits");
    kept->resize(inputs.size() * vocab_size);
    reference->check(cria_reset(reference->session(), 0));
    reference_by_token->run(inputs, [&](size_t index, std::span<const float> logits) {
      std::copy(logits.begin(), logits.end(),
                kept->begin() + static_cast<std::ptrdiff_t>(index * vocab_size));
      return true;
    });
  }
  model.check(cria_reset(model.session(), 0));
  by_token->run(inputs, [&](size_t index, std::span<const float> logits) {
    if (index + 1 < window.first_scored) return true;
    const uint32_t next = window.tokens[index + 1];
    const double nll = score(logits, next, model, &totals->nll);
    if (reference != nullptr) {
      const auto other = std::span<const float>(*kept).subspan(index * vocab_size, vocab_size);
      totals->more_nll.add(nll - score(other, next, *reference, &totals->reference_nll));
      compare(logits, other, model, totals);
    }
    return true;
  });
}

nlohmann::ordered_json json_of(const EvalOptions& options, const EvalText& text, Totals* totals) {
  const double perplexity = std::exp(totals->nll.mean());
  nlohmann::ordered_json json = {
      {"model", options.common.model_path},
      {"text", options.text_path.empty() ? options.ids_path : options.text_path},
      {"protocol", options.protocol},
      {"documents", text.n_documents},
      {"windows", text.windows.size()},
      {"window_tokens", text.window_tokens},
      {"tokens", totals->nll.count()},
      {"mean_nll", totals->nll.mean()},
      {"perplexity", perplexity},
      {"perplexity_error", perplexity * totals->nll.error()}};
  if (options.reference_path.empty()) return json;
  constexpr double kShare = 0.99;
  std::vector<float>& sorted = totals->kl_by_token;
  std::sort(sorted.begin(), sorted.end());
  const double ratio = std::exp(totals->more_nll.mean());
  const auto last = static_cast<double>(sorted.size() - 1);
  json["reference"] = {{"model", options.reference_path},
                       {"perplexity", std::exp(totals->reference_nll.mean())},
                       {"perplexity_ratio", ratio},
                       {"perplexity_ratio_error", ratio * totals->more_nll.error()},
                       {"mean_kl", totals->kl.mean()},
                       {"mean_kl_error", totals->kl.error()},
                       {"p99_kl", sorted[static_cast<size_t>(kShare * last)]},
                       {"top1_agreement", totals->same_top.mean()},
                       {"top1_agreement_error", totals->same_top.error()}};
  return json;
}

void print_table(const nlohmann::ordered_json& json, TextStream* out) {
  const auto number = [](const nlohmann::ordered_json& in, const char* key) {
    return in[key].get<double>();
  };
  out->put(text_of("tokens scored     %zu in %zu windows\n", json["tokens"].get<size_t>(),
                   json["windows"].get<size_t>()));
  out->put(text_of("perplexity        %.4f +- %.4f\n", number(json, "perplexity"),
                   number(json, "perplexity_error")));
  if (!json.contains("reference")) return;
  const nlohmann::ordered_json& reference = json["reference"];
  out->put(text_of("of the reference  %.4f (x %.4f +- %.4f)\n", number(reference, "perplexity"),
                   number(reference, "perplexity_ratio"),
                   number(reference, "perplexity_ratio_error")));
  out->put(text_of("KL divergence     %.6f +- %.6f, 99 %%: %.6f\n", number(reference, "mean_kl"),
                   number(reference, "mean_kl_error"), number(reference, "p99_kl")));
  constexpr double kPercent = 100.0;
  out->put(text_of("same top token    %.2f +- %.2f %%\n",
                   kPercent * number(reference, "top1_agreement"),
                   kPercent * number(reference, "top1_agreement_error")));
}

// With the context that the model plans, or the longest of the reference where that is shorter.
CommonOptions options_of_both(const EvalOptions& options) {
  CommonOptions common = options.common;
  if (options.reference_path.empty() || common.context != 0) return common;
  const ModelFile model(common.model_path, common.mapping);
  const ModelFile reference(options.reference_path, common.mapping);
  common.context = std::min(model.info().planned_context, reference.info().max_context);
  return common;
}

std::string_view text_of_token(const ModelSession& model, uint32_t token) {
  size_t n_bytes = 0;
  const char* const text = cria_token_text(model.model(), token, &n_bytes);
  return text == nullptr ? std::string_view() : std::string_view(text, n_bytes);
}

// The reference reads the model's tokens, so each id must stand for the same text in both. Ids
// without a text are passed over: files of one checkpoint fill up their vocabularies differently,
// and a file may have no tokenizer.
void check_same_tokens(const ModelSession& model, const ModelSession& reference) {
  for (uint32_t token = 0; token < model.info().vocab_size; ++token) {
    const std::string_view own = text_of_token(model, token);
    const std::string_view other = text_of_token(reference, token);
    if (own.empty() || other.empty() || own == other) continue;
    throw ProgramError(ExitCode::kInvalidInput, reference.path() + ": its tokenizer differs from " +
                                                    model.path() + "'s at token " +
                                                    std::to_string(token) +
                                                    "; give the same model's f32 file");
  }
}

std::unique_ptr<ModelSession> open_reference(const EvalOptions& options,
                                             const ModelSession& model) {
  if (options.reference_path.empty()) return nullptr;
  CommonOptions common = options.common;
  common.model_path = options.reference_path;
  common.context = cria_context(model.session());
  if (options.reference_kv_format) common.kv_format = options.reference_kv_format;
  auto reference = std::make_unique<ModelSession>(common, SessionNeeds());
  if (reference->info().vocab_size != model.info().vocab_size) {
    throw ProgramError(ExitCode::kInvalidInput,
                       options.reference_path + ": its vocabulary differs in size from " +
                           options.common.model_path + "'s; give the same model's f32 file");
  }
  check_same_tokens(model, *reference);
  return reference;
}

}  // namespace

ExitCode run_command(const EvalOptions& options) {
  const bool has_ids = !options.ids_path.empty();
  const std::string text = read_text_file(has_ids ? options.ids_path : options.text_path);
  const ModelSession model(options_of_both(options), {.max_text_bytes = has_ids ? 0 : text.size()});
  if (!has_ids) model.need_tokenizer();
  const std::unique_ptr<ModelSession> reference = open_reference(options, model);
  const EvalProtocol protocol =
      options.protocol == kHalvesName ? EvalProtocol::kHalves : EvalProtocol::kDocuments;
  const EvalText windows = has_ids ? cut_id_windows(model, text, options.ids_path, protocol)
                                   : cut_eval_windows(model, text, protocol);

  LogitsByToken by_token(model);
  std::unique_ptr<LogitsByToken> reference_by_token;
  if (reference) reference_by_token = std::make_unique<LogitsByToken>(*reference);
  std::vector<float> kept;
  Totals totals;
  {
    ProgressLine progress("evaluating");
    for (size_t i = 0; i < windows.windows.size(); ++i) {
      run_window(windows.windows[i], model, &by_token, reference.get(), reference_by_token.get(),
                 &kept, &totals);
      progress.update(i + 1, windows.windows.size(), "");
    }
  }
  if (totals.nll.count() == 0) {
    throw ProgramError(ExitCode::kInvalidInput,
                       (has_ids ? options.ids_path : options.text_path) + ": no tokens to score");
  }
  TextStream out(STDOUT_FILENO);
  const nlohmann::ordered_json json = json_of(options, windows, &totals);
  constexpr int kIndent = 2;
  if (options.json) {
    out.put(json.dump(kIndent, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
            "\n");
  } else {
    print_table(json, &out);
  }
  out.flush();
  return ExitCode::kDone;
}

}  // namespace cria::hosted
